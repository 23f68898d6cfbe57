"""Text of what a program in C++ needs to compile and load its kernels."""

from __future__ import annotations

__all__ = ["FLAGS", "loader"]

FLAGS = (
    "-O3",
    "-march=native",
    "-fPIC",
    "-shared",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-thread-jumps",
    "-std=c++17",
    "-w",
)
"""How programs are compiled.

Never -ffast-math: linked in, it changes the whole process. Threading jumps through the selects of
`operators.sketches.cpp.maths` costs a quarter more instructions (GCC 12).
"""

_LOADER = '''
FLAGS = %(flags)s


def load_kernels(source, config):
    """Compile the C++ text for one configuration and load it."""
    flags = FLAGS + [f"-D{name}={int(value)}" for name, value in config.items()]
    flags += [f"-mprefer-vector-width={config.get('VECTOR_BITS', 256)}"]
    default = os.path.join(tempfile.gettempdir(), f"kernels-{os.getuid()}")
    folder = os.environ.get("EVOKERNEL_BUILD_DIR", default)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    key = hashlib.sha256("\\0".join([source, *flags]).encode()).hexdigest()
    path = os.path.join(folder, f"{key[:32]}.so")
    if not os.path.exists(path):
        fresh = f"{path}.{os.getpid()}"
        command = ["g++", *flags, "-x", "c++", "-", "-o", fresh, %(links)s]
        result = subprocess.run(command, input=source, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"g++ failed on CPP_SOURCE:\\n{result.stderr}")
        os.replace(fresh, path)
    return ctypes.CDLL(path)
'''


def loader(flags: str, links: str) -> str:
    """Return the text of `load_kernels(source, config)`, which compiles C++ and loads it.

    Args:
        flags: Text of the list of flags.
        links: Text of the arguments that follow the output's name, which name libraries.
    """
    return (_LOADER % {"flags": flags, "links": links}).strip()
