"""The ClientApp. On a SuperNode each message is done by a process of its own, so nothing but the node's disk lasts
from one message to the next."""

from __future__ import annotations

from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedtrip.flower.node import Node
from fedtrip.flower.records import outcome_content, read_identity, read_job
from fedtrip.one_thread import one_thread


def client_app(**defaults: str) -> ClientApp:
    """The app; `defaults` are settings for nodes that do not have them."""
    made = ClientApp()

    def settings(context: Context) -> dict[str, Any]:
        return {**defaults, **context.node_config}

    def node_of(message: Message, context: Context) -> Node:
        return Node(settings(context), read_identity(dict(message.content.config_records["run"])))

    @made.query("announce")
    def announce(message: Message, context: Context) -> Message:
        with one_thread():
            node = node_of(message, context)
        described = ConfigRecord({"client": node.client, "samples": node.samples})
        return Message(RecordDict({"node": described}), reply_to=message)

    @made.train()
    def train(message: Message, context: Context) -> Message:
        job = read_job(message.content)
        with one_thread():
            outcome = Node(settings(context), job.run).do(job)
        return Message(outcome_content(outcome), reply_to=message)

    @made.query("forget")
    def forget(message: Message, context: Context) -> Message:
        with one_thread():
            node_of(message, context).forget()
        return Message(RecordDict(), reply_to=message)

    return made


app = client_app()
