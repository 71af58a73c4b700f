# RabbitMQ lists what was opened once its statistics were collected, after seconds. bunny's specs of
# recovery go on when something is listed, and use channels that bunny still recovers if that is soon.
require "bunny/test_kit"

Bunny::TestKit.singleton_class.prepend(
  Module.new do
    def poll_until(...) = super.tap { sleep 1 }
  end
)
