"""Lamina compiles PyTorch models through MLIR, layer by layer.

    compiled = lamina.compile(model, (example_input,))      # ahead of the call, by torch.export
    compiled = torch.compile(model, backend="lamina")       # at the call, by Dynamo; trains
    opt-driver model.mlir --pass-pipeline='...'             # any level, by hand

Importing the package imports neither torch nor MLIR.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .core.custom_kernel import CustomKernel
from .core.errors import CompileError
from .core.options import Options

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from lamina.frontend.entry.model import CompiledModel

    from .core.custom_kernel import Rule
    from .report.explanation import Explanation

__all__ = ["CompileError", "CustomKernel", "Options", "compile", "custom_kernel", "explain", "register_kernel"]


def compile(
    model: Callable[..., Any],
    example_inputs: "tuple[Any, ...] | list[Any] | dict[str, Any] | Tensor",
    *,
    target: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> "CompiledModel":
    """Compiles a module or function for inputs like the given ones and returns a callable that takes such inputs.

    example_inputs  positional arguments as a tuple, or keyword arguments as a dict; tensors fix shape, dtype and device, all else
                    (numbers, strings, None) is part of what is compiled
    target          what to compile for: "cpu" (this machine), "cpu:znver4" or "nvvm:sm_90a"; by default what the tensors are on;
                    "null:TARGET" compiles for a target and runs nothing: calls return zeros
    options         `lamina.Options`, or a mapping with the same names
    dynamic_shapes  the sizes that calls may vary, as in torch.export.export: for each argument a dict or tuple of
                    torch.export.Dim, Dim.AUTO, Dim.DYNAMIC, Dim.STATIC or None. One compilation serves all sizes in range, but that
                    sizes of 0 and 1 are compiled apart

    What is returned stands for the model: it has the model's parameters, state, mode, hooks and attributes, and copies and pickles
    (a copy compiles anew). Parameters and buffers are looked up at each call, so an optimizer's step is seen. Where gradients
    are asked for (grad mode, and a tensor that requires them) the call is differentiable.

    A change of a submodule's mode, hooks or children, of which weights are tied, of the grad mode, of autocast, of the strides of
    tensors or of which arguments are one tensor compiles a variant at the next call. All other Python state is constant: attributes
    of modules that are no parameters, buffers or submodules, global and enclosing variables keep the values that they had when a
    variant was traced. A tensor that forward assigns to an attribute is assigned at each call; a model whose forward changes other
    Python state, or that cannot be traced, raises CompileError with the line.
    """
    from lamina.frontend.entry.export import compile_model

    return compile_model(model, example_inputs, target=target, options=options, dynamic_shapes=dynamic_shapes)


def explain(
    model: Callable[..., Any],
    example_inputs: "tuple[Any, ...] | list[Any] | dict[str, Any] | Tensor",
    *,
    more: Sequence[Any] = (),
    target: str | None = None,
    options: Options | Mapping[str, Any] | None = None,
    training: bool = False,
    measure: bool = False,
    show: bool = True,
    dynamic_shapes: Any = None,
) -> "Explanation":
    """Compiles the model, calls it once, prints what was made of it and returns that as data: every kernel with the ops in it,
    their source lines, bytes, operations and place under the roofline; fusion before and after; external calls with their
    reasons; the memory plan; time per pass; graph breaks, guards and recompiles.

    more      further inputs to call it with, to see what compiles again
    training  with gradients: forward and backward graphs
    measure   also time every kernel and call
    show      print it
    dynamic_shapes  the sizes that are symbols, as in lamina.compile; all for what torch.compile(dynamic=True) returned. The report
              then gives each size's range and where it is read, and sizes of kernels as expressions and at the example's sizes
    """
    from lamina.frontend.entry.explain import explain as report

    return report(
        model,
        example_inputs,
        more=more,
        target=target,
        options=options,
        training=training,
        measure=measure,
        show=show,
        dynamic_shapes=dynamic_shapes,
    )


def custom_kernel(
    op: Any = None,
    *,
    kernel: Any = None,
    source: "str | Path | None" = None,
    arguments: "Rule",
    grid: "Rule",
    pattern: "Rule | None" = None,
    example_inputs: "Sequence[Tensor]" = (),
    outputs: "Rule | None" = None,
    when: "Rule | None" = None,
    constants: Mapping[str, Any] | None = None,
    num_warps: int = 4,
    num_stages: int = 3,
    threads: "int | tuple[int, ...] | Rule | None" = None,
    shared: "int | Rule | None" = None,
    flags: Sequence[str] = (),
    epilogue: tuple[str, str] | None = None,
    configs: Sequence[Mapping[str, Any]] = (),
    name: str = "",
) -> CustomKernel:
    """A kernel of yours, in Triton or CUDA C++, for an op or a graph pattern, on NVIDIA GPUs: pass it as
    `options={"kernels": [k]}`, or use it `with k:`. See docs/custom-kernels.md.

    op          a functional op of torch or of yours (torch.library.custom_op): its name "mylib::scaled_add" or its overload
    pattern     instead of an op: a function of tensors in torch's ops, which is looked for in graphs
    example_inputs  tensors that the pattern is traced for; their sizes do not matter, nor does their floating dtype
    kernel      the @triton.jit function, or the name of a function of `source`
    source      CUDA C++: the text, or the pathlib.Path of a file
    arguments   gives what it is launched with, in the order of its parameters or as a dict: tensors, which it gets as pointers,
                and numbers, which are compiled in
    grid        gives the number of blocks along x, or along x, y and z
    outputs     gives tensors like those that the kernel writes; they have to be what the op's own shape rule says, which is the
                default
    when        says whether the kernel serves; where it does not, the op is compiled as without it
    constants   values of constexpr parameters that are the same at each launch; of macros in CUDA C++, where they may be rules
    num_warps, num_stages  for Triton
    threads, shared, flags  for CUDA C++: threads of a block (256), or along x, y and z; bytes of shared memory that the kernel
                asks for; options for NVRTC
    epilogue    parameters of a Triton kernel with one result: one gets a function that the kernel calls on what it is about to
                store, the other what that needs, so that pointwise ops that follow are computed there
    configs     what tuning chooses from (docs/tuning.md): constants, and num_warps and num_stages, or threads and shared, by
                name, the likeliest first
    name        what it is called in explain and in profiles, by default the function's name

    Rules are functions that take by name what they need of the op's (or the pattern's) arguments and the constants; `arguments` and
    `grid` also of its results, `out`, or `out0`, `out1`, ... where there are several. Tensors have shape, stride() and dtype, but
    no values.
    """
    from .frontend.custom.declare import declared

    given = CustomKernel(
        name=name,
        op=op,
        kernel=kernel,
        arguments=arguments,
        grid=grid,
        outputs=outputs,
        when=when,
        pattern=pattern,
        example_inputs=tuple(example_inputs),
        constants=dict(constants or {}),
        num_warps=num_warps,
        num_stages=num_stages,
        configs=tuple(map(dict, configs)),
        source=source,
        flags=flags,
        threads=threads,
        shared=shared,
        epilogue=epilogue or (),
    )
    return declared(given)


def register_kernel(op: Any = None, **declared: Any) -> CustomKernel:
    """lamina.custom_kernel for the whole process: `torch.compile(model, backend="lamina")` and all else that compiles from now on
    looks at it, until `remove()` of what is returned. Of several kernels that serve the one registered last is taken."""
    from .core.custom_kernel import TABLE

    made = custom_kernel(op, **declared)
    TABLE.add(made)
    return made
