"""The simulator's versions of triton.experimental.gluon.language.nvidia.hopper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from triton.experimental.gluon.language.nvidia.hopper import mbarrier as real_barriers

from .scheduler import Program, join
from .shared import WRITTEN, Awaited, Barrier, Memory
from .values import Pointer, Tensor, plain, shape_of, triton_type


class Barriers:
    """Simulates the module `mbarrier`."""

    MBarrierLayout = real_barriers.MBarrierLayout

    def __init__(self, program: Program) -> None:
        self._program = program

    def init(self, memory: Memory, count: Any) -> None:
        made = memory.barriers[memory.data.storage_offset()] = Barrier(self._program, plain(count), plain(count))
        self._program.running.unfenced.append(made)

    def invalidate(self, memory: Memory) -> None:
        memory.barrier()
        del memory.barriers[memory.data.storage_offset()]

    def expect(self, memory: Memory, bytes: Any, pred: Any = True) -> None:
        self._program.pause()
        if plain(pred):
            memory.barrier().expect(plain(bytes))

    def arrive(self, memory: Memory, *, count: Any = 1, pred: Any = True) -> None:
        self._program.pause()
        if plain(pred):
            memory.barrier().arrive(plain(count))

    def wait(self, memory: Memory, phase: Any, pred: Any = True, deps: Any = ()) -> None:
        found, parity = memory.barrier(), int(plain(phase))
        if parity not in (0, 1):
            raise self._program.fault(f"waits for parity {parity}, which is neither 0 nor 1")
        if plain(pred):
            self._program.pause(lambda: found.passes(parity), Awaited(memory, found, parity))
            join(self._program.running.clock, found.completed)


@dataclass(frozen=True)
class Descriptor:
    """Blocks of a tensor of 1 to 5 dimensions in memory."""

    base: Pointer
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    layout: Any

    @property
    def dtype(self) -> Any:
        return triton_type(self.base.memory.dtype)

    @property
    def nbytes_per_cta(self) -> int:
        return torch.Size(self.block_shape).numel() * self.base.memory.dtype.itemsize

    @property
    def block_type(self) -> Any:
        return SimpleNamespace(nbytes=self.nbytes_per_cta, shape=self.block_shape)

    def place(self, at: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the offsets of the block's elements from the memory's first, and which are inside of the tensor."""
        offsets, inside = self.base.offsets, torch.ones((), dtype=torch.bool)
        for axis, (start, block) in enumerate(zip(at, self.block_shape, strict=True)):
            index = (start + torch.arange(block)).view([-1 if i == axis else 1 for i in range(len(at))])
            offsets, inside = offsets + index * self.strides[axis], inside & (index >= 0) & (index < self.shape[axis])
        return offsets, inside


@dataclass(eq=False)
class _Store:
    source: Memory
    done: bool = False


class Tma:
    """Simulates the module `tma`."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def make_tensor_descriptor(
        self, base: Pointer, shape: Any, strides: Any, block_shape: Any, layout: Any, padding_option: Any = "zero"
    ) -> Descriptor:
        made = Descriptor(base, shape_of(shape), shape_of(strides), shape_of(block_shape), layout)
        first, size = int(base.offsets), base.memory.dtype.itemsize
        about = f"a descriptor of {made.shape} with strides {made.strides} from element {first} in blocks of {made.block_shape}"
        if not 1 <= len(made.shape) <= 5 or not len(made.shape) == len(made.strides) == len(made.block_shape):
            raise self._program.fault(f"{about}: not one of each for 1 to 5 dimensions")
        if made.strides[-1] != 1 or any(n * size % 16 for n in (*made.strides[:-1], first)):
            raise self._program.fault(f"{about}: does not begin, or go on, at multiples of 16 bytes")
        last = first + sum((n - 1) * s for n, s in zip(made.shape, made.strides, strict=True))
        if not 0 <= first <= last < base.memory.numel():
            raise self._program.fault(f"{about}: reaches out of a tensor of {base.memory.numel()}")
        return made

    def async_load(self, descriptor: Descriptor, coord: Any, barrier: Memory, result: Memory, pred: Any = True, **_: Any) -> None:
        self._program.pause()
        if not plain(pred):
            return
        offsets, inside = self._place(descriptor, coord, result)
        result.arriving()
        found = barrier.barrier()
        if not found.visible:
            raise self._program.fault("a TMA load to a barrier that was initialized without fence_async_shared() after it")

        def finish() -> None:
            memory = descriptor.base.memory
            numbers = memory[offsets.where(inside, torch.zeros_like(offsets))].where(inside, torch.zeros((), dtype=memory.dtype))
            result.data.copy_(numbers.view(result.shape))
            result.written(WRITTEN, found, found.phase + 1)
            found.come(descriptor.nbytes_per_cta)

        self._program.copy(finish)

    async_copy_global_to_shared = async_load

    def async_store(self, descriptor: Descriptor, coord: Any, source: Memory, **_: Any) -> None:
        self._program.pause()
        offsets, inside = self._place(descriptor, coord, source)
        source.lend("a TMA store")
        made = _Store(source)
        self._program.running.stores.append(made)

        def finish() -> None:
            numbers = source.data.reshape(inside.shape)
            descriptor.base.memory[offsets[inside]] = numbers[inside]
            made.done = True

        self._program.copy(finish)

    async_copy_shared_to_global = async_store

    def store_wait(self, pendings: Any) -> None:
        """Waits for all stores of the partition except the last `pendings`."""
        me = self._program.running
        awaited = me.stores[: max(len(me.stores) - plain(pendings), 0)]
        self._program.pause(lambda: all(store.done for store in awaited))
        for store in awaited:
            me.stores.remove(store)
            store.source.give_back()

    def _place(self, descriptor: Descriptor, coord: Any, memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
        at = shape_of(coord)
        if len(at) != len(descriptor.shape):
            raise self._program.fault(f"{len(at)} coordinates for {len(descriptor.shape)} dimensions")
        if memory.dtype != descriptor.dtype or memory.data.numel() != torch.Size(descriptor.block_shape).numel():
            raise self._program.fault(
                f"a block {descriptor.block_shape} of {descriptor.dtype}, and a buffer {memory.shape} of {memory.dtype}"
            )
        return descriptor.place(at)


class Product(Tensor):
    """The future result of a product: an accumulator, or a tensor once warpgroup_mma_wait was called."""

    def __init__(self, program: Program, shape: list[int], compute: Callable[[], torch.Tensor], operands: list[Memory]) -> None:
        self.program, self._shape, self.compute, self.operands = program, shape, compute, operands
        self.value: torch.Tensor | None = None

    @property
    def shape(self) -> list[int]:
        return self._shape

    @property
    def dtype(self) -> Any:
        return triton_type(torch.float32)

    @property
    def data(self) -> torch.Tensor:  # type: ignore[override]
        raise self.program.fault("uses a product that warpgroup_mma_wait has not given back as done")

    def finish(self) -> None:
        self.value = self.compute()
        for operand in self.operands:
            operand.give_back()


class Products:
    """Simulates warpgroup_mma and related functions."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def warpgroup_mma(self, a: Any, b: Memory, acc: Any, *, use_acc: Any = True, is_async: Any = False, **_: Any) -> Any:
        self._program.pause()
        if self._program.running.warps % 4:
            raise self._program.fault(f"a product of {self._program.running.warps} warps: a warpgroup has 4")
        shape = [a.shape[0], b.shape[1]]
        if a.shape[1] != b.shape[0] or acc.shape != shape:
            raise self._program.fault(f"a product of {a.shape} and {b.shape} into {acc.shape}")
        if a.dtype != b.dtype or a.dtype.primitive_bitwidth > 16:
            raise self._program.fault(
                f"a product of {a.dtype} and {b.dtype}, which the simulator does not round as tensor cores do"
            )
        operands = [x for x in (a, b) if isinstance(x, Memory)]
        for operand in operands:
            operand.lend("a product")
        left = a.data
        before = (acc if isinstance(acc, Product) else acc.data) if plain(use_acc) else None

        def compute() -> torch.Tensor:
            found = left.float() @ b.data.float()
            summed = before.value if isinstance(before, Product) else before
            return found if summed is None else found + summed

        made = Product(self._program, shape, compute, operands)
        self._program.running.products.append(made)
        return made if plain(is_async) else self.warpgroup_mma_wait(0, [made])

    def warpgroup_mma_wait(self, num_outstanding: Any = 0, deps: Any = None) -> Any:
        if not deps:
            raise ValueError("warpgroup_mma_wait deps must be given")
        self._program.pause()
        products = self._program.running.products
        while len(products) > plain(num_outstanding):
            products.pop(0).finish()
        done = tuple(Tensor(d.value) if isinstance(d, Product) and d.value is not None else d for d in deps)
        return done[0] if len(done) == 1 else done

    def fence_async_shared(self, cluster: Any = False) -> None:
        mine = self._program.running.unfenced
        while mine:
            mine.pop().fenced()
