"""Runs cells of code inside a sandbox; built into the zygote.

prepare() runs once in the zygote: imports, a shell, a warm-up, a frozen heap. run() runs in a child, once per cell. With IPython cells have its semantics; without it the plain shell below behaves the same for
everything but magics and rich display of foreign objects.

All output leaves through the built-in module _cofferdam (zg_python.c): write(stream, bytes), emit(kind, bytes).
"""
import ast
import asyncio
import base64
import builtins
import gc
import inspect
import io
import json
import linecache
import os
import random
import signal
import subprocess
import sys
import traceback
import types
import warnings

import _signal

import _cofferdam as _c

_STDOUT, _STDERR, _DISPLAY, _EXCEPTION, _COUNT = 4, 5, 6, 7, 8
_main = sys.modules["__main__"]
_shell = None
_is_running = False
_cpu_s = 0
_children = set()


class StdinNotImplementedError(NotImplementedError):
    """Nobody can answer a question that code asks."""


class _Raw(io.RawIOBase):
    """The unbuffered end of sys.stdout or sys.stderr."""

    def __init__(self, stream, fd, name):
        self._stream = stream
        self._fd = fd
        self.name = name
        self.mode = "wb"

    def writable(self):
        return True

    def isatty(self):
        return False

    def fileno(self):
        return self._fd

    def write(self, data):
        _c.write(self._stream, data)
        return memoryview(data).nbytes


def _text_stream(stream, fd, name):
    raw = io.BufferedWriter(_Raw(stream, fd, name), 65536)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="\n",
                            line_buffering=True)


class _Stdin(io.TextIOBase):
    """Fails clearly instead of waiting for ever."""

    encoding = "utf-8"
    name = "<stdin>"

    def _refuse(self, *_args):
        raise StdinNotImplementedError("input is not available: this code runs without a terminal "
                                       "and nobody can answer; put the value into the code instead")

    read = readline = readlines = __next__ = _refuse

    def fileno(self):
        return 0

    def isatty(self):
        return False


def _no_input(prompt="", /):
    if prompt:
        print(prompt)
    sys.stdin.readline()


def _streams_set():
    sys.stdout = sys.__stdout__ = _text_stream(_STDOUT, 1, "<stdout>")
    sys.stderr = sys.__stderr__ = _text_stream(_STDERR, 2, "<stderr>")
    sys.stdin = sys.__stdin__ = _Stdin()


_streams = ()


def _flush():
    for stream in (sys.stdout, sys.stderr) + _streams:
        try:
            stream.flush()
        except Exception:  # user code may have closed or replaced it
            pass


# ---- results ----------------------------------------------------------------------------------

def _json_value(value):
    """The value if JSON can hold it, else its repr."""
    try:
        json.dumps(value, allow_nan=False)
        return value
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _emit_json(kind, obj):
    return _c.emit(kind, json.dumps(obj).encode("ascii", "replace"))


def _emit_display(data, is_main=False):
    out = {}
    for mime, value in data.items():
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = base64.b64encode(value).decode("ascii")
        out[str(mime)] = value if isinstance(value, str) else _json_value(value)
    if is_main:
        out["is_main_result"] = True
    _flush()
    _emit_json(_DISPLAY, out)


def _emit_exception(name, value, lines):
    _flush()
    _emit_json(_EXCEPTION, {"name": name, "value": value, "traceback": "\n".join(lines)})


def _text_of(exc):
    try:
        return str(exc)
    except BaseException:
        return "<the exception cannot be printed>"


def _emit_plain_exception(exc):
    try:
        lines = "".join(traceback.format_exception(type(exc), exc, exc.__traceback__))
        lines = lines.rstrip("\n").split("\n")
    except BaseException:
        lines = [type(exc).__name__]
    _emit_exception(type(exc).__name__, _text_of(exc), lines)


# ---- matplotlib --------------------------------------------------------------------------------

def _show_figures():
    """Emits every open figure as PNG, oldest first, and closes it."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    managers = helpers.Gcf.get_all_fig_managers() if helpers is not None else ()
    if not managers:
        return
    try:
        for manager in managers:
            figure = manager.canvas.figure
            image = io.BytesIO()
            figure.savefig(image, format="png", bbox_inches="tight")
            _emit_display({"image/png": image.getvalue(), "text/plain": repr(figure)})
    finally:
        helpers.Gcf.destroy_all()


def _matplotlib_set():
    """This module is also a matplotlib backend: Agg, whose show() is _show_figures."""
    import matplotlib
    from matplotlib.backend_bases import FigureManagerBase, _Backend
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    @_Backend.export
    class _Inline(_Backend):
        FigureCanvas = FigureCanvasAgg
        FigureManager = FigureManagerBase

        @staticmethod
        def show(*_args, **_kwargs):
            _show_figures()

    matplotlib.use("module://" + __name__)
    import matplotlib.pyplot as _pyplot
    return _pyplot


# ---- shells ------------------------------------------------------------------------------------

_REPR_TYPES = (int, bool, str, bytes)


def _ipython_make():
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Hook(DisplayHook):
        def write_output_prompt(self):
            pass

        def compute_format_data(self, result):
            # the machinery of formatters costs a child 1.3 MiB of copied pages; for these types it ends in repr()
            if type(result) in _REPR_TYPES and self.shell.printers_now() == self.shell.own_printers:
                return {"text/plain": repr(result)}, {}
            return super().compute_format_data(result)

        def write_format_data(self, format_dict, md_dict=None):
            _emit_display(format_dict, is_main=True)

        def finish_displayhook(self):
            pass

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, source=None, *, transient=None, update=False,
                    **kwargs):
            _emit_display(data)

        def clear_output(self, wait=False):
            pass

    class Shell(InteractiveShell):
        displayhook_class = Hook
        display_pub_class = Publisher
        was_raised = False
        own_callbacks = None
        printers = ()  # tables of the formatters, by type; the first three are text/plain's
        own_printers = None

        def _showtraceback(self, etype, evalue, stb):
            self.was_raised = True
            _emit_exception(getattr(etype, "__name__", str(etype)), _text_of(evalue),
                            stb if isinstance(stb, list) else [str(stb)])

        def ask_exit(self):
            raise SystemExit(0)

        def system(self, cmd):
            _flush()
            code = subprocess.call(self.var_expand(cmd, depth=1), shell=True)
            self.user_ns["_exit_code"] = code

        system_raw = system_piped = system

        def init_io(self):
            pass

        def enable_gui(self, gui=None):
            pass

        def callbacks(self):
            return [len(calls) for calls in self.events.callbacks.values()]

        def settle(self):
            """After the warm-up: IPython's and matplotlib's own hooks do not count as the user's."""
            self.own_callbacks = self.callbacks()
            found = []
            for formatter in self.display_formatter.formatters.values():
                found += (formatter.type_printers, formatter.deferred_printers, formatter.singleton_printers)
            self.printers = tuple(found)
            self.own_printers = self.printers_now()

        def printers_now(self):
            return sum(map(len, self.printers)), *map(self.printers[0].get, _REPR_TYPES)

        def _plain(self, text, name):
            """Code objects of a cell that IPython would not change, else None: then run_cell does it all."""
            if (self.ast_transformers or self.input_transformers_post
                    or self.callbacks() != self.own_callbacks):
                return None
            try:
                flags = self.compile.flags
                tree = compile(text, name, "exec", ast.PyCF_ONLY_AST | flags, True)
                last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
                codes = [compile(tree, name, "exec", flags, True)] if tree.body else []
                if last is not None:
                    codes.append(compile(ast.Interactive([last]), name, "single", flags, True))
                return codes
            except BaseException:
                return None

        def run(self, text):
            self.was_raised = False
            count = self.execution_count
            name = "<ipython-input-%d>" % count
            # most cells are plain Python; the whole machinery costs a child a millisecond of copied pages
            codes = self._plain(text, name) if "__future__" not in text else None
            exc = None
            if not codes:
                result = self.run_cell(text, store_history=True)
                exc = result.error_in_exec or result.error_before_exec
            else:
                store_inputs(count, text, text)
                linecache.cache[name] = (len(text), None, text.splitlines(True), name)
                self.compile._filename_map[name] = count
                sys.displayhook = self.displayhook
                try:
                    for code in codes:
                        exec(code, self.user_global_ns, self.user_ns)
                except SystemExit as e:
                    exc = e
                except BaseException:
                    self.showtraceback(running_compiled_code=True)
                self._trait_values["execution_count"] = count + 1
            if isinstance(exc, SystemExit):
                _emit_exception("SystemExit", _text_of(exc), ["SystemExit: " + _text_of(exc)])
            elif exc is not None and not self.was_raised:
                _emit_plain_exception(exc)

        def forget(self, names):
            """As if nothing had run since `names` was taken."""
            self.user_ns.clear()
            self.user_ns.update(names)
            self.displayhook._ = self.displayhook.__ = self.displayhook.___ = ""
            self.user_ns["Out"].clear()
            del self.history_manager.input_hist_parsed[1:], self.history_manager.input_hist_raw[1:]
            self._trait_values["execution_count"] = 1

        def count(self):
            return self.execution_count - 1

    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.banner1 = ""
    config.InteractiveShell.history_load_length = 0
    def store_inputs(line_num, source, source_raw=None):
        history, names = shell.history_manager, shell.user_ns
        source_raw = (source_raw or source).rstrip("\n")
        history.input_hist_parsed.append(source.rstrip("\n"))
        history.input_hist_raw.append(source_raw)
        names["_iii"], names["_ii"] = names.get("_ii", ""), names.get("_i", "")
        names["_i"] = names["_i%d" % line_num] = source_raw

    shell = Shell.instance(config=config, user_module=_main, user_ns=_main.__dict__)
    shell.history_manager.store_inputs = store_inputs  # nothing is kept on disk
    shell.builtin_trap.__enter__()
    shell.display_trap.__enter__()
    warnings.filterwarnings("ignore", message="To exit: use")
    return shell


class _PlainShell:
    """The same without IPython."""

    def __init__(self):
        self._count = 0
        self._loop = None
        self.user_ns = _main.__dict__

    def reset(self, new_session=True):
        self._count = 0
        for name in [n for n in self.user_ns if not n.startswith("__")]:
            del self.user_ns[name]

    def count(self):
        return self._count

    def settle(self):
        pass

    def forget(self, names):
        self._count = 0
        self.user_ns.clear()
        self.user_ns.update(names)

    def _call(self, code):
        value = eval(code, self.user_ns)
        if inspect.iscoroutine(value):
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                asyncio.set_event_loop(self._loop)
            value = self._loop.run_until_complete(value)
        return value

    def _cell(self, text, name):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = compile(text, name, "exec", flags | ast.PyCF_ONLY_AST)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        self._call(compile(tree, name, "exec", flags))
        if last is not None:
            value = self._call(compile(last, name, "eval", flags))
            if value is not None and not text.rstrip().endswith(";"):
                self.user_ns["_"] = value
                _emit_display({"text/plain": repr(value)}, is_main=True)

    def run(self, text):
        self._count += 1
        name = "<cell %d>" % self._count
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        try:
            self._cell(text, name)
        except BaseException as exc:
            tb = exc.__traceback__
            while tb is not None and tb.tb_frame.f_code.co_filename != name:
                tb = tb.tb_next
            _emit_plain_exception(exc.with_traceback(tb))


# ---- children of user code ---------------------------------------------------------------------

def _recorded(call):
    """Notes the pid of a process started through `call`, so that _reap leaves its status to the caller."""
    def wrapper(*args, **kwargs):
        result = call(*args, **kwargs)
        pid = result[0] if isinstance(result, tuple) else result
        if pid:
            _children.add(pid)
        return result
    return wrapper


def _record_children():
    subprocess._fork_exec = _recorded(subprocess._fork_exec)
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp"):
        setattr(os, name, _recorded(getattr(os, name)))


def _reap():
    """Collects orphans: as first process of the namespace we inherit them. At most one batch per cell."""
    try:
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) not in _children:
                with open("/proc/%s/stat" % entry) as f:
                    fields = f.read().rpartition(")")[2].split()
                if fields[0] == "Z" and fields[1] == str(os.getpid()):
                    os.waitpid(int(entry), os.WNOHANG)
        _children.intersection_update([int(e) for e in os.listdir("/proc") if e.isdigit()])
    except (OSError, ValueError):
        _children.clear()


# ---- life --------------------------------------------------------------------------------------

def _on_interrupt(_signum, _frame):
    if _is_running:
        raise KeyboardInterrupt


def _on_cpu(_signum, _frame):
    if _is_running:
        raise TimeoutError("the CPU time limit of %d s per run was reached" % _cpu_s)


def _warm(pyplot):
    """Fills caches that every child would fill again: compiled code, formatters, fonts."""
    cells = ["warm = 1\nwarm + 1", "def warm():\n    return 1 / 0\nwarm()", "print('')", "%pwd"]
    if sys.modules.get("pandas") is not None:
        cells.append("import pandas\npandas.DataFrame({'a': [1, 2]})")
    for cell in cells:
        _shell.run(cell)
    if pyplot is not None:
        pyplot.plot([1, 2])
        pyplot.title("warm")
        _show_figures()
        # cached fonts hold open files, and a child closes every descriptor it inherited
        getattr(sys.modules["matplotlib.font_manager"]._get_font, "cache_clear", int)()
    _shell.reset(new_session=True)
    _shell.settle()
    _shell.run("print('')")  # once more on the path that cells of children take
    _shell.reset(new_session=True)


def warm():
    """In a child of the warm pool: touches the memory that a first cell touches."""
    names = dict(_shell.user_ns)
    for _ in range(2):
        _shell.run("print('')\n1")
        _flush()
    _shell.forget(names)


def prepare():
    """In the zygote. Returns notices for the operator."""
    global _shell, _streams
    notices = []
    pyplot = None
    os.environ["COLUMNS"] = "100"
    _streams_set()
    _streams = (sys.stdout, sys.stderr)
    builtins.input = _no_input
    for name in ("numpy", "pandas", "matplotlib"):
        try:
            __import__(name)
            if name == "matplotlib":
                pyplot = _matplotlib_set()
        except ImportError as exc:
            notices.append("%s is not available in local sandboxes (%s); install python3-%s"
                           % (name, exc, name))
    try:
        _shell = _ipython_make()
    except ImportError as exc:
        notices.append("IPython is not available in local sandboxes (%s): cells run without magics "
                       "and rich display; install python3-ipython" % exc)
        _shell = _PlainShell()
    _warm(pyplot)
    _c.generators(*_generators_find())
    os.register_at_fork(after_in_child=_c.forked)
    _record_children()
    _handlers_check()
    sys.path.insert(0, "")
    os.environ["MPLCONFIGDIR"] = "/tmp/.matplotlib"
    os.environ["PWD"] = os.environ["HOME"] = "/mnt/data"
    gc.collect()
    gc.freeze()
    return notices


def _generators_find():
    """Addresses of the 624 state words of the global generators of random and numpy, so that a child can refill them
    without running their seeding code, which writes to hundreds of pages."""
    import ctypes
    random.seed()
    random.random()
    # the object's head and its index word come first
    found = [(id(random._inst) + object.__basicsize__ + 4, list(random.getstate()[1][:624]))]
    if sys.modules.get("numpy") is not None:
        import numpy
        numpy.random.seed()
        found.append((numpy.random.mtrand._rand._bit_generator.ctypes.state_address,
                      numpy.random.get_state()[1].tolist()))
    for address, words in found:
        if list((ctypes.c_uint32 * 624).from_address(address)) != words:
            raise RuntimeError("the state of a random number generator is not where it should be")
    return [address for address, _ in found]


def _handlers_check():
    """User code may have replaced them."""
    if _signal.getsignal(_signal.SIGINT) is not _on_interrupt:
        signal.signal(signal.SIGINT, _on_interrupt)
    if _signal.getsignal(_signal.SIGXCPU) is not _on_cpu:
        signal.signal(signal.SIGXCPU, _on_cpu)


def run(code, cpu_s):
    """One cell; every outcome leaves as an event."""
    global _is_running, _cpu_s
    _cpu_s = cpu_s
    _handlers_check()
    try:
        _is_running = True
        _shell.run(code.decode("utf-8", "replace"))
        _show_figures()
    except BaseException as exc:
        _is_running = False
        _emit_plain_exception(exc)
    finally:
        _is_running = False
        _flush()
        _c.emit(_COUNT, _shell.count().to_bytes(8, "little"))
        _reap()
