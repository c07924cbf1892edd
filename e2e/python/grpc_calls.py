"""Calls of gRPC's own library to the unix sockets of an agent and a runtime, and what became of them, as JSON.

The messages are few and small: they are written here as the bytes that they are (tag, length, value), so that nothing has to be generated.
"""

import json
import sys

import grpc

TIMEOUT_SECONDS = 60


def field(number, value):
    """A field of text or of a message."""
    value = value.encode() if isinstance(value, str) else value
    assert len(value) < 128
    return bytes([number << 3 | 2, len(value)]) + value


def outcome(channel, method, request, times=1):
    """How often the same call was answered with the same, or what it was refused with."""
    call = channel.unary_unary(method)
    # the first request names its fields, later ones refer to them
    try:
        answers = {call(request, timeout=TIMEOUT_SECONDS, metadata=[("number", str(number))]) for number in range(times)}
    except grpc.RpcError as error:
        return {"refused": error.code().name}, b""
    assert len(answers) == 1, answers
    return {"calls": times}, answers.pop()


def main(agent, runtime):
    told = {}
    with grpc.insecure_channel(f"unix:{runtime}") as channel:
        service = "/runtime.v1.RuntimeService/"
        told["Version"], answer = outcome(channel, service + "Version", b"", 3)
        # the second field is what the runtime calls itself
        told["Version"]["has"] = "outrigger-sim" if b"outrigger-sim" in answer else repr(answer)
        told["RunPodSandbox"], _ = outcome(channel, service + "RunPodSandbox", b"")
    with grpc.insecure_channel(f"unix:{agent}") as channel:
        service = "/v1beta1.DeviceManagerService/"
        mapper = field(1, "python") + field(2, "v1") + field(3, "v1beta1") + field(4, "snakes") + field(5, "/tmp/snakes.sock")
        told["MapperRegister"], _ = outcome(channel, service + "MapperRegister", field(2, mapper), 3)
        told["ReportDeviceStatus"], _ = outcome(channel, service + "ReportDeviceStatus", field(1, "nobody") + field(3, "ns"))
    print(json.dumps(told))


main(*sys.argv[1:])
