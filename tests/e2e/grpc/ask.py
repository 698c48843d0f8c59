#!/usr/bin/python3
"""ask.py - calls by gRPC with grpcio, which is grpc-core: one a line.

    ask.py ADDRESS DESCRIPTORS      asks for what it reads, and prints what it is told

A line is {"method": "package.Service/Method", "request": {…}, "metadata": {…}, "timeout_ms": …}, or a list of them,
which are then called at once, each over the "connection" of its number. It is answered by
{"code": …, "message": …, "response": {…}, "trailers": {…}}, or by a list of these.
"""
import json
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

PATIENCE = 30  # seconds, where a call says nothing


class Caller:
    def __init__(self, address, descriptors):
        self.address, self.channels = address, []
        self.pool = descriptor_pool.DescriptorPool()
        files = descriptor_pb2.FileDescriptorSet()
        with open(descriptors, "rb") as file:
            files.ParseFromString(file.read())
        for one in files.file:
            self.pool.Add(one)

    def message(self, descriptor):
        if hasattr(message_factory, "GetMessageClass"):
            return message_factory.GetMessageClass(descriptor)
        return message_factory.MessageFactory(self.pool).GetPrototype(descriptor)

    def channel(self, number):
        while len(self.channels) <= number:
            self.channels.append(grpc.insecure_channel(
                self.address, options=[("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]))
        return self.channels[number]

    def begin(self, call, number=0):
        service, name = call["method"].rsplit("/", 1)
        try:
            method = self.pool.FindServiceByName(service).FindMethodByName(name)
            asked, told = self.message(method.input_type), self.message(method.output_type)
        except KeyError:  # which the server is to say
            asked = told = self.message(self.pool.FindMessageTypeByName("grpc.health.v1.HealthCheckRequest"))
        stub = self.channel(number).unary_unary("/" + call["method"], request_serializer=asked.SerializeToString,
                                                response_deserializer=told.FromString)
        return stub.future(json_format.ParseDict(call.get("request", {}), asked()),
                           timeout=call.get("timeout_ms", PATIENCE * 1000) / 1000,
                           metadata=list(call.get("metadata", {}).items()))

    @staticmethod
    def end(future):
        trailers = {key: value for key, value in future.trailing_metadata() or () if isinstance(value, str)}
        code, message = future.code().value[0], future.details() or ""
        told = {} if code else json_format.MessageToDict(future.result())
        return {"code": code, "message": message, "response": told, "trailers": trailers}


def main(address, descriptors):
    caller = Caller(address, descriptors)
    for line in sys.stdin:
        calls = json.loads(line)
        if isinstance(calls, dict):
            answer = caller.end(caller.begin(calls))
        else:
            begun = [caller.begin(call, call.get("connection", 0)) for call in calls]
            answer = [caller.end(future) for future in begun]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
