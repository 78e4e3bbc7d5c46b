#!/usr/bin/python3
"""runner.py outside a sandbox, without IPython and its friends: the plain shell behaves like the rich one."""
import importlib.util
import json
import os
import sys
import tempfile
import types

events = []
fake = types.ModuleType("_cofferdam")
fake.write = lambda stream, data: events.append((stream, bytes(data)))
fake.emit = lambda kind, data: events.append((kind, bytes(data))) or True
fake.forked = lambda: None
fake.generators = lambda *addresses: None
sys.modules["_cofferdam"] = fake
for name in ("IPython", "numpy", "pandas", "matplotlib"):
    sys.modules[name] = None  # an import of it fails
kept = sys.stdout, sys.stderr
os.chdir(tempfile.gettempdir())
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../sandboxd/zygote/runner.py")
spec = importlib.util.spec_from_file_location("_cofferdam_runner", source)
sys.dont_write_bytecode = True
runner = importlib.util.module_from_spec(spec)
sys.modules["_cofferdam_runner"] = runner
spec.loader.exec_module(runner)
main = types.ModuleType("__main__")
runner._main = main
notices = runner.prepare()


def run(code):
    events.clear()
    runner.run(code.encode(), 10)
    out = b"".join(d for k, d in events if k == runner._STDOUT).decode()
    shown = [json.loads(d) for k, d in events if k == runner._DISPLAY]
    raised = [json.loads(d) for k, d in events if k == runner._EXCEPTION]
    count = [int.from_bytes(d, "little") for k, d in events if k == runner._COUNT]
    return out, shown, raised, count


def equal(got, want):
    if got != want:
        kept[1].write("got %r, want %r\n" % (got, want))
        kept[1].flush()
        os._exit(1)


equal(len(notices), 4)
equal(run("print('a')\nx = 4\nx + 1"), ("a\n", [{"text/plain": "5", "is_main_result": True}], [], [1]))
equal(run("x;"), ("", [], [], [2]))
equal(run("import asyncio\nasync def f():\n  await asyncio.sleep(0)\n  return 8\nawait f()")[1][0]["text/plain"], "8")
out, shown, raised, count = run("print('b')\ndef g():\n  return 1 // 0\ng()")
equal((out, shown, count), ("b\n", [], [4]))
equal((raised[0]["name"], "return 1 // 0" in raised[0]["traceback"]), ("ZeroDivisionError", True))
equal(run("def h(:")[2][0]["name"], "SyntaxError")
equal(run("import sys\nsys.exit(3)")[2][0]["name"], "SystemExit")
equal(run("input('?')")[2][0]["name"], "StdinNotImplementedError")
equal(run("raise KeyboardInterrupt")[2][0]["name"], "KeyboardInterrupt")
equal(run("import sys\nsys.stdout.close()")[2], [])
equal(run("x")[1][0]["text/plain"], "4")
runner.warm()
kept[0].write("ok\n")
kept[0].flush()
os._exit(0)
