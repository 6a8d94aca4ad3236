"""Uses a RabbitMQ server as its users do, and prints each answer on a line.

usage: rabbitmq_client.py AMQP_PORT HTTP_PORT fill|drain

`fill` publishes 10,000 persistent messages and waits until the server has confirmed every one.
`drain`, after a restart of the server, reads them back. Both ask the management API. The output
holds nothing that changes from run to run, so that the answers of two builds can be compared.
"""

import base64
import json
import sys
import urllib.error
import urllib.request

import pika

MESSAGES = 10_000
QUEUE = "orders"


def body(number):
    return b"%08d " % number + bytes(number % 251 for _ in range(number % 300))


def connect(port):
    return pika.BlockingConnection(pika.ConnectionParameters(
        "127.0.0.1", port, heartbeat=0, socket_timeout=60, stack_timeout=60,
        blocked_connection_timeout=60))


class Fill:
    """Publishes without waiting for one confirmation before the next message is sent."""

    def __init__(self, port):
        self.unconfirmed = set(range(1, MESSAGES + 1))
        self.refused = 0
        self.connection = pika.SelectConnection(
            pika.ConnectionParameters("127.0.0.1", port, heartbeat=0),
            on_open_callback=lambda c: c.channel(on_open_callback=self.opened),
            on_open_error_callback=self.failed)

    def run(self):
        self.connection.ioloop.start()
        print("confirmed", MESSAGES - len(self.unconfirmed), "refused", self.refused)

    def failed(self, _connection, error):
        self.connection.ioloop.stop()
        raise SystemExit(f"no connection: {error}")

    def opened(self, channel):
        self.channel = channel
        channel.confirm_delivery(self.confirmed, callback=self.confirming)

    def confirming(self, _frame):
        self.channel.queue_declare(QUEUE, durable=True, callback=self.publish)

    def publish(self, _frame):
        kept = pika.BasicProperties(delivery_mode=2)
        for number in range(1, MESSAGES + 1):
            self.channel.basic_publish("", QUEUE, body(number), kept)

    def confirmed(self, frame):
        tag = frame.method.delivery_tag
        tags = {t for t in self.unconfirmed if t <= tag} if frame.method.multiple else {tag}
        self.unconfirmed -= tags
        if frame.method.NAME != "Basic.Ack":
            self.refused += len(tags)
        if not self.unconfirmed:
            self.connection.add_on_close_callback(
                lambda connection, _reason: connection.ioloop.stop())
            self.connection.close()


def drain(port):
    connection = connect(port)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=500)
    wrong = 0
    count = 0
    redelivered = 0
    for method, properties, read in channel.consume(QUEUE, inactivity_timeout=60):
        if method is None:
            break
        count += 1
        wrong += read != body(count) or properties.delivery_mode != 2
        redelivered += method.redelivered
        channel.basic_ack(method.delivery_tag)
        if count == MESSAGES:
            break
    channel.cancel()
    print("read back", count, "wrong", wrong, "redelivered", redelivered)

    # Routing by topic, a message without a consumer, and a queue that does not exist.
    channel = connection.channel()
    channel.exchange_declare("news", "topic")
    bound = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(bound, "news", "weather.*")
    channel.confirm_delivery()
    for key in ["weather.north", "weather", "sport.north", "weather.south"]:
        try:
            channel.basic_publish("news", key, key.encode(), mandatory=True)
            print("routed", key)
        except pika.exceptions.UnroutableError:
            print("not routed", key)
    print("topics", [channel.basic_get(bound, auto_ack=True)[2] for _ in range(3)])
    try:
        channel.queue_declare("nobody", passive=True)
    except pika.exceptions.ChannelClosedByBroker as closed:
        print("closed", closed.reply_code, closed.reply_text)
    connection.close()


def ask(port, method, path, user="guest", value=None):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", method=method,
        data=None if value is None else json.dumps(value).encode(),
        headers={"content-type": "application/json", "authorization": "Basic "
                 + base64.b64encode(f"{user}:guest".encode()).decode()})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            read = answer.read()
            kind = answer.headers.get_content_type()
            return answer.status, json.loads(read) if kind == "application/json" else len(read) > 0
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read() or "null")


def manage(port):
    status, overview = ask(port, "GET", "/api/overview")
    print("overview", status, overview["product_name"], overview["rabbitmq_version"])
    print("exchange types", sorted(kind["name"] for kind in overview["exchange_types"]))
    status, queue = ask(port, "GET", f"/api/queues/%2F/{QUEUE}")
    print("queue", status, queue["name"], queue["durable"], queue["type"])
    print("health", ask(port, "GET", "/api/health/checks/alarms"))
    print("page", ask(port, "GET", "/")[0])
    print("user", ask(port, "PUT", "/api/users/clerk", value={"password": "x", "tags": ""})[0])
    print("users", sorted(user["name"] for user in ask(port, "GET", "/api/users")[1]))
    print("policy", ask(port, "PUT", "/api/policies/%2F/short",
                        value={"pattern": "^tmp", "definition": {"max-length": 5}})[0])
    print("bad policy", ask(port, "PUT", "/api/policies/%2F/bad",
                            value={"pattern": "^tmp", "definition": {"max-length": "x"}}))
    status, published = ask(port, "POST", "/api/exchanges/%2F/amq.default/publish",
                            value={"properties": {}, "routing_key": "none", "payload": "a",
                                   "payload_encoding": "string"})
    print("published", status, published)
    definitions = ask(port, "GET", "/api/definitions")[1]
    print("definitions", sorted(definitions))
    print("stranger", ask(port, "GET", "/api/overview", user="stranger"))
    print("nothing", ask(port, "GET", "/api/queues/%2F/nobody"))


def main():
    amqp, http, phase = sys.argv[1:]
    if phase == "fill":
        Fill(int(amqp)).run()
    else:
        drain(int(amqp))
    manage(int(http))


main()
