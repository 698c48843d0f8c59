"""redis_py.py - asks a server through redis-py, whose pipelines are transactions.

    python3 redis_py.py PORT TOKEN

Says in JSON what it heard. Started where no module of the tests is in its way.
"""
import json
import sys

import redis

client = redis.Redis(port=int(sys.argv[1]), password=sys.argv[2], decode_responses=True)
heard = {"ping": client.ping()}
with client.pipeline() as pipeline:
    for _ in range(7):
        pipeline.execute_command("WEIR.CHECK", "login", "192.0.2.1")
    heard["allowed"] = [reply[0] for reply in pipeline.execute()]
with client.pipeline() as pipeline:
    pipeline.execute_command("WEIR.CHECK", "login", "192.0.2.2")
    pipeline.execute_command("WEIR.CHOCK", "login", "192.0.2.2")
    try:
        heard["aborted"] = pipeline.execute()
    except redis.RedisError as error:
        heard["aborted"] = str(error)
heard["left"] = client.execute_command("WEIR.PEEK", "login", "192.0.2.2")[2]
full = client.execute_command("WEIR.CHECK", "login", "192.0.2.3", "FULL")
heard["full"] = dict(zip(full[:22:2], full[1:22:2]))
with client.pipeline(transaction=False) as pipeline:
    for _ in range(1000):
        pipeline.execute_command("WEIR.CHECK", "pipelined", "a")
    heard["pipelined"] = sum(reply[0] for reply in pipeline.execute())
print(json.dumps(heard))
