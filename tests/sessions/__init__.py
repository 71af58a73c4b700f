"""Random AMQP sessions, played by a plain client against two brokers, every frame compared.

    steps.py     a session: what two connections do, from a seed
    kinds.py     what sessions are about; also client_kinds.py, message_kinds.py and managing.py
    by_hand.py   frames that no library writes: typed tables, contents in pieces, wrong frames
    wire.py      one connection: frames out, frames in; no behaviour of its own
    in_memory.py the same without a socket, to a broker in this process
    player.py    plays a session on a broker, and records what came back after each step
    comparing.py plays on both, says where they part, and shortens a session that does

`python -m tests.sessions --seeds 0:1000 --reference amqp://... --url amqp://...` is the command.

What is compared: all methods, contents and properties, on each channel, in order. Names that the
broker chooses, times and the vhost are replaced. A step ends when nothing moves any more: the
player asks each queue and each channel something harmless, twice. What RabbitMQ itself does in
any order is compared without order: confirms, and what is on different channels.
"""
