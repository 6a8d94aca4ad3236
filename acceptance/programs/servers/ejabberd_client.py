"""Uses an ejabberd server as its users do, and prints each answer on a line.

usage: ejabberd_client.py XMPP_PORT HTTP_PORT CERTIFICATE first|again

`first` registers two users over the HTTP API. Both phases log both in over TLS, with the server's
certificate checked, and let them send each other messages and talk in a room. `again`, after a
restart of the server, also reads what the server kept. The output holds nothing that changes from
run to run, so that the answers of two builds can be compared.
"""

import asyncio
import json
import logging
import sys
import urllib.error
import urllib.request

import slixmpp

MESSAGES = 200
ROOM = "kitchen@conference.localhost"
PATIENCE = 60


def ask(port, call, value=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/{call}",
                                     data=json.dumps(value or {}).encode())
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


class User(slixmpp.ClientXMPP):
    def __init__(self, name, password, certificate):
        super().__init__(f"{name}@localhost/desk", password)
        self.ca_certs = certificate
        self.enable_direct_tls = False
        self.enable_plaintext = False
        self.auto_reconnect = False
        for plugin in ["xep_0030", "xep_0045", "xep_0054", "xep_0199", "xep_0203"]:
            self.register_plugin(plugin)
        self.messages = asyncio.Queue()
        self.state = asyncio.get_running_loop().create_future()
        self.add_event_handler("session_start", lambda _: self.settle("logged in"))
        self.add_event_handler("failed_auth", lambda _: self.settle("refused"))
        self.add_event_handler("connection_failed", lambda e: self.settle(f"no connection {e}"))
        self.add_event_handler("message", self.messages.put_nowait)

    def settle(self, state):
        if not self.state.done():
            self.state.set_result(state)

    async def log_in(self, port):
        self.connect("127.0.0.1", port)
        return await asyncio.wait_for(self.state, PATIENCE)

    async def next_message(self):
        return await asyncio.wait_for(self.messages.get(), PATIENCE)


async def talk(one, other):
    """Sends MESSAGES both ways at once; they arrive whole and in order."""
    for number in range(MESSAGES):
        one.send_message(other.boundjid.bare, f"{number} to two, Grüße {'x' * number}")
        other.send_message(one.boundjid.bare, f"{number} to one, привет {'y' * number}")
    for reader, start, tail in [(other, "to two, Grüße", "x"), (one, "to one, привет", "y")]:
        read = [(await reader.next_message())["body"] for _ in range(MESSAGES)]
        print("messages", start,
              read == [f"{number} {start} {tail * number}" for number in range(MESSAGES)])


async def meet(one, other):
    """Two users in a room: each sees what both say, in one order."""
    for user, nick in [(one, "cook"), (other, "guest")]:
        joined = await user.plugin["xep_0045"].join_muc_wait(
            ROOM, nick, timeout=PATIENCE, maxstanzas=0)
        presence, others = joined[:2]
        print("joined", sorted(str(code) for code in presence["muc"]["status_codes"]),
              sorted(str(other["from"].resource) for other in others))
    muc = one.plugin["xep_0045"]
    await muc.set_room_config(ROOM, await muc.get_room_config(ROOM))
    for turn in range(10):
        speaker = [one, other][turn % 2]
        speaker.send_message(ROOM, f"turn {turn}", mtype="groupchat")
        heard = []
        for reader in [one, other]:
            while True:
                message = await reader.next_message()
                if message["type"] == "groupchat" and message["body"]:
                    heard.append((message["from"].resource, message["body"]))
                    break
        if turn in (0, 9):
            print("heard", heard)


async def main():
    port, http, certificate, phase = sys.argv[1:]
    for name in ["one", "two"]:
        print("register", name, ask(http, "register",
                                    {"user": name, "host": "localhost", "password": name * 3}))
    print("users", ask(http, "registered_users", {"host": "localhost"}))
    print("unknown call", ask(http, "whittle_has_no_such_call"))
    print("bad arguments", ask(http, "registered_users", {"nothing": 1})[0])

    stranger = User("one", "wrong", certificate)
    print("stranger", await stranger.log_in(int(port)))
    stranger.abort()
    users = [User(name, name * 3, certificate) for name in ["one", "two"]]
    for user in users:
        print(user.boundjid.bare, await user.log_in(int(port)), user.socket.version())
        user.send_presence()
        await user.get_roster()
    one, two = users
    if phase == "first":
        card = one.plugin["xep_0054"].stanza.VCardTemp()
        card["FN"] = "User One"
        await one.plugin["xep_0054"].publish_vcard(vcard=card)
        one.update_roster(two.boundjid.bare, name="Second", groups=["Desk"])
    card = await two.plugin["xep_0054"].get_vcard(one.boundjid.bare)
    print("card", card["vcard_temp"]["FN"])
    roster = await one.get_roster()
    print("roster", sorted((str(jid), item["name"], item["groups"])
                           for jid, item in roster["roster"]["items"].items()))
    info = await one.plugin["xep_0030"].get_info("localhost")
    print("features", sorted(info["disco_info"]["features"]))
    print("ping", await one.plugin["xep_0199"].ping("localhost") >= 0)
    await talk(one, two)
    await meet(one, two)
    print("online", ask(http, "connected_users_number"))
    await two.disconnect()
    one.send_message(two.boundjid.bare, "for later")
    await one.plugin["xep_0199"].ping("localhost")
    later = User("two", "twotwotwo", certificate)
    print("two again", await later.log_in(int(port)))
    later.send_presence()
    kept = await later.next_message()
    print("kept", kept["body"], bool(kept["delay"]["stamp"]))
    for user in [one, later]:
        await user.disconnect()


# A refused user's connection ends while it still has something to send.
logging.disable(logging.CRITICAL)
asyncio.run(main())
