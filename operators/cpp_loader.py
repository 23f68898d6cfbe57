"""Text of what a program in C++ needs to compile and load its kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["FLAGS", "IMPORTS", "loaded", "loader", "source_of"]

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

IMPORTS = tuple(f"import {name}" for name in ("ctypes", "hashlib", "os", "subprocess", "tempfile"))
"""What the loader's text names."""
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


def source_of(cpp: str) -> str:
    """Return the text of `CPP_SOURCE`, which holds C++."""
    return f'CPP_SOURCE = r"""\n{cpp.strip()}\n"""'


def loaded(config: str, types: Mapping[str, Sequence[str]]) -> str:
    """Return the text of `KERNELS`, whose attributes are the functions of `CPP_SOURCE`.

    Args:
        config: Text of the configuration that it is compiled for.
        types: The arguments' types in `ctypes`, by the name of each function that is called.
    """
    lines = [f"KERNELS = load_kernels(CPP_SOURCE, {config})"]
    for name, arguments in types.items():
        lines.append(f"KERNELS.{name}.argtypes = [{', '.join(arguments)}]")
        lines.append(f"KERNELS.{name}.restype = None")
    return "\n".join(lines)
