#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "zg_python.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "zg_mem.h"
#include "zg_out.h"
#include "zg_runner.h"

#define GENERATOR_BYTES (624 * 4)

static PyObject *run_fn; /* owned for the life of the process */
static PyObject *warm_fn;

static PyObject *py_write(PyObject *self, PyObject *args)
{
    int type = 0;
    Py_buffer data;

    (void)self;
    if (!PyArg_ParseTuple(args, "iy*", &type, &data)) {
        return NULL;
    }
    if (type == ZYP_FRAME_STDOUT || type == ZYP_FRAME_STDERR) {
        Py_BEGIN_ALLOW_THREADS;
        zg_out_write((enum zyp_frame_type)type, data.buf, (size_t)data.len);
        Py_END_ALLOW_THREADS;
    }
    PyBuffer_Release(&data);
    Py_RETURN_NONE;
}

static PyObject *py_emit(PyObject *self, PyObject *args)
{
    int type = 0;
    Py_buffer data;
    bool is_sent = false;

    (void)self;
    if (!PyArg_ParseTuple(args, "iy*", &type, &data)) {
        return NULL;
    }
    if (type >= ZYP_FRAME_DISPLAY && type <= ZYP_FRAME_COUNT) {
        Py_BEGIN_ALLOW_THREADS;
        is_sent = zg_out_emit((enum zyp_frame_type)type, data.buf, (size_t)data.len);
        Py_END_ALLOW_THREADS;
    }
    PyBuffer_Release(&data);
    return PyBool_FromLong(is_sent ? 1 : 0);
}

static PyObject *py_forked(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    zg_out_forked();
    Py_RETURN_NONE;
}

/* State words of the pseudo-random generators; a child's are refilled before its first cell. */
static struct {
    unsigned long long at[2];
    unsigned count;
} generators;

static PyObject *py_generators(PyObject *self, PyObject *args)
{
    unsigned long long at[2] = {0, 0};

    (void)self;
    if (!PyArg_ParseTuple(args, "K|K", &at[0], &at[1])) {
        return NULL;
    }
    if (zg_out_is_off()) { /* in the zygote only */
        for (generators.count = 0; generators.count < 2 && at[generators.count] != 0;
             generators.count++) {
            generators.at[generators.count] = at[generators.count];
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"write", py_write, METH_VARARGS, "write(stream, bytes): text output"},
    {"emit", py_emit, METH_VARARGS, "emit(kind, bytes) -> sent: one event"},
    {"generators", py_generators, METH_VARARGS, "generators(address, ...): what to reseed"},
    {"forked", py_forked, METH_NOARGS, "this is a forked process from now on"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "_cofferdam", NULL, -1, methods, NULL, NULL, NULL, NULL};

static PyObject *module_init(void)
{
    return PyModule_Create(&module_def);
}

/* The pending Python error as text. */
static int python_fail(struct zg_err *e, const char *what)
{
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *tb = NULL;

    PyErr_Fetch(&type, &value, &tb);
    PyObject *text = value != NULL ? PyObject_Str(value) : NULL;
    const char *s = text != NULL ? PyUnicode_AsUTF8(text) : NULL;

    (void)zg_fail(e, 0, "python: %s: %s", what, s != NULL ? s : "unknown error");
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
    PyErr_Clear();
    return -1;
}

static int interpreter_start(struct zg_err *e)
{
    PyObjectArenaAllocator arenas = {NULL, zg_mem_arena_alloc, zg_mem_arena_free};
    PyPreConfig pre;
    PyConfig config;

    PyPreConfig_InitIsolatedConfig(&pre);
    pre.utf8_mode = 1;
    PyStatus st = Py_PreInitialize(&pre);

    if (PyStatus_Exception(st) != 0) {
        return zg_fail(e, 0, "python: %s", st.err_msg);
    }
    PyObject_SetArenaAllocator(&arenas);
    if (PyImport_AppendInittab("_cofferdam", module_init) != 0) {
        return zg_fail(e, 0, "python: cannot add the built-in module");
    }
    PyConfig_InitIsolatedConfig(&config);
    config.write_bytecode = 0;
    config.install_signal_handlers = 0;
    st = PyConfig_SetString(&config, &config.program_name, L"/usr/bin/python3");
    if (PyStatus_Exception(st) == 0) {
        st = PyConfig_SetString(&config, &config.executable, L"/usr/bin/python3");
    }
    if (PyStatus_Exception(st) == 0) {
        st = Py_InitializeFromConfig(&config);
    }
    PyConfig_Clear(&config);
    if (PyStatus_Exception(st) != 0) {
        return zg_fail(e, 0, "python: cannot start: %s; is python3 installed?",
                       st.err_msg != NULL ? st.err_msg : "exit");
    }
    return 0;
}

static int runner_load(PyObject **ret, struct zg_err *e)
{
    PyObject *code = Py_CompileString((const char *)zg_runner_source, "<cofferdam>", Py_file_input);
    PyObject *module = code != NULL ? PyImport_ExecCodeModule("_cofferdam_runner", code) : NULL;

    Py_XDECREF(code);
    if (module == NULL) {
        return python_fail(e, "runner");
    }
    run_fn = PyObject_GetAttrString(module, "run");
    warm_fn = PyObject_GetAttrString(module, "warm");
    if (run_fn == NULL || warm_fn == NULL) {
        Py_XDECREF(module);
        return python_fail(e, "runner");
    }
    *ret = module;
    return 0;
}

int zg_python_init(void (*notice)(const char *text), struct zg_err *e)
{
    PyObject *module = NULL;

    if (interpreter_start(e) != 0 || runner_load(&module, e) != 0) {
        return -1;
    }
    PyObject *notices = PyObject_CallMethod(module, "prepare", NULL);

    Py_XDECREF(module);
    if (notices == NULL) {
        return python_fail(e, "imports and warm-up");
    }
    for (Py_ssize_t i = 0; PyList_Check(notices) != 0 && i < PyList_Size(notices); i++) {
        const char *text = PyUnicode_AsUTF8(PyList_GetItem(notices, i));

        if (text != NULL) {
            notice(text);
        }
    }
    Py_XDECREF(notices);
    PyErr_Clear();
    return 0;
}

int zg_python_child_start(void)
{
    for (unsigned i = 0; i < generators.count; i++) {
        void *at = (void *)(uintptr_t)generators.at[i];

        if (getrandom(at, GENERATOR_BYTES, 0) != GENERATOR_BYTES) {
            return -1;
        }
    }
    return 0;
}

static PyThreadState *idle_state;

void zg_python_idle_begin(void)
{
    idle_state = PyEval_SaveThread();
}

void zg_python_idle_end(void)
{
    PyEval_RestoreThread(idle_state);
}

void zg_python_warm(void)
{
    PyObject *r = PyObject_CallNoArgs(warm_fn);

    Py_XDECREF(r);
    PyErr_Clear();
}

/* CPU seconds of this run, on top of what the process has used; the handler raises in user code. */
static void cpu_arm(uint32_t cpu_s)
{
    struct rusage used;
    struct rlimit r;

    if (getrusage(RUSAGE_SELF, &used) == 0 && getrlimit(RLIMIT_CPU, &r) == 0) {
        rlim_t soft = (rlim_t)used.ru_utime.tv_sec + (rlim_t)used.ru_stime.tv_sec + cpu_s + 1;

        r.rlim_cur = soft < r.rlim_max ? soft : r.rlim_max;
        (void)setrlimit(RLIMIT_CPU, &r);
    }
}

void zg_python_run(const char *code, size_t n, uint32_t cpu_s)
{
    cpu_arm(cpu_s);
    PyObject *r = PyObject_CallFunction(run_fn, "y#I", code, (Py_ssize_t)n, (unsigned)cpu_s);

    if (r == NULL) { /* an interrupt in the runner's own last lines, or user code broke it */
        struct zg_err e;

        (void)python_fail(&e, "the run ended abnormally");
        zg_out_write(ZYP_FRAME_STDERR, e.text, strlen(e.text));
    }
    Py_XDECREF(r);
    (void)fflush(stdout);
    (void)fflush(stderr);
}
