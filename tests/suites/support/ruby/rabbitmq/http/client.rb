# The part of the gem rabbitmq_http_api_client that bunny's specs use.
require "json"
require "net/http"
require "ostruct"
require "uri"

module RabbitMQ
  module HTTP
    class Client
      def initialize(endpoint) = @endpoint = URI(endpoint)

      def list_connections = all("connections")

      def list_channels = all("channels")

      def list_queues = all("queues")

      def list_exchanges(vhost) = all("exchanges/#{URI.encode_www_form_component(vhost)}")

      def close_connection(name)
        ask(Net::HTTP::Delete, "connections/#{URI.encode_www_form_component(name).gsub("+", "%20")}")
      end

      private

      def all(path) = JSON.parse(ask(Net::HTTP::Get, path).body).map { |each| OpenStruct.new(each) }

      def ask(method, path)
        request = method.new("/api/#{path}")
        request.basic_auth("guest", "guest")
        Net::HTTP.start(@endpoint.host, @endpoint.port) { |http| http.request(request) }
      end
    end
  end
end
