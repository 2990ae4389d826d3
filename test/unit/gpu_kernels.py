"""Handwritten kernels at the distributed GPU level, for tests of the simulator."""

from torch_mlir import ir

from lamina.dialects import context

SHARED = "#gpu.address_space<workgroup>"


def kernel(arguments: str, body: str, *, threads: int = 32, shared: str = "") -> ir.Module:
    """Returns a module with one gpu.func @k, in which thread and block ids are defined."""
    text = f"""
    gpu.module @kernels {{
      gpu.func @k({arguments}) {f"workgroup({shared})" if shared else ""} kernel
          attributes {{known_block_size = array<i32: {threads}, 1, 1>}} {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c4 = arith.constant 4 : index
        %c32 = arith.constant 32 : index
        %w = arith.constant 32 : i32
        %i1 = arith.constant 1 : i32
        %f1 = arith.constant 1.0 : f32
        %t = gpu.thread_id x
        %b = gpu.block_id x
        {body}
        gpu.return
      }}
    }}"""
    return ir.Module.parse(text, context())


def pointwise(n: int, threads: int, element: str = "f32", vec: int = 4, align: int = 16) -> ir.Module:
    """Returns a kernel of y = x * x, with `vec` elements per thread, and a partial last CTA."""
    return kernel(
        f"%x: memref<{n}x{element}>, %y: memref<{n}x{element}>",
        f"""
        %v = arith.constant {vec} : index
        %n = arith.constant {n} : index
        %d = gpu.block_dim x
        %first = arith.muli %b, %d : index
        %lane = arith.addi %first, %t : index
        %i = arith.muli %lane, %v : index
        %ok = arith.cmpi ult, %i, %n : index
        scf.if %ok {{
          %a = vector.load %x[%i] {{alignment = {align}}} : memref<{n}x{element}>, vector<{vec}x{element}>
          %r = arith.mulf %a, %a : vector<{vec}x{element}>
          vector.store %r, %y[%i] {{alignment = {align}}} : memref<{n}x{element}>, vector<{vec}x{element}>
        }}""",
        threads=threads,
    )


ROW_SUM = """
    %c8 = arith.constant 8 : index
    %n = arith.constant 2048 : index
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %c1024 = arith.constant 1024 : index
    %row = arith.muli %b, %n : index
    %at = arith.muli %t, %c4 : index
    %sum = scf.for %k = %c0 to %n step %c1024 iter_args(%acc = %zero) -> (vector<4xf32>) {
      %p = arith.addi %row, %k : index
      %i = arith.addi %p, %at : index
      %a = vector.load %x[%i] {alignment = 16} : memref<16384xf32>, vector<4xf32>
      %s = arith.addf %acc, %a : vector<4xf32>
      scf.yield %s : vector<4xf32>
    }
    %e:4 = vector.to_elements %sum : vector<4xf32>
    %e01 = arith.addf %e#0, %e#1 : f32
    %e23 = arith.addf %e#2, %e#3 : f32
    %s0 = arith.addf %e01, %e23 : f32
    %i2 = arith.constant 2 : i32
    %i4 = arith.constant 4 : i32
    %i8 = arith.constant 8 : i32
    %i16 = arith.constant 16 : i32
    %x1, %p1 = gpu.shuffle xor %s0, %i16, %w : f32
    %s1 = arith.addf %s0, %x1 : f32
    %x2, %p2 = gpu.shuffle xor %s1, %i8, %w : f32
    %s2 = arith.addf %s1, %x2 : f32
    %x3, %p3 = gpu.shuffle xor %s2, %i4, %w : f32
    %s3 = arith.addf %s2, %x3 : f32
    %x4, %p4 = gpu.shuffle xor %s3, %i2, %w : f32
    %s4 = arith.addf %s3, %x4 : f32
    %x5, %p5 = gpu.shuffle xor %s4, %i1, %w : f32
    %s5 = arith.addf %s4, %x5 : f32
    %warp = arith.divui %t, %c32 : index
    %lane = arith.remui %t, %c32 : index
    %first = arith.cmpi eq, %lane, %c0 : index
    scf.if %first {
      memref.store %s5, %smem[%warp] : memref<8xf32, SHARED>
    }
    gpu.barrier
    %z = arith.constant 0.0 : f32
    %all = scf.for %k = %c0 to %c8 step %c1 iter_args(%acc = %z) -> (f32) {
      %one = memref.load %smem[%k] : memref<8xf32, SHARED>
      %next = arith.addf %acc, %one : f32
      scf.yield %next : f32
    }
    %zeroth = arith.cmpi eq, %t, %c0 : index
    scf.if %zeroth {
      memref.store %all, %y[%b] : memref<8xf32>
    }"""


def row_sum(body: str = ROW_SUM) -> ir.Module:
    """Returns a kernel that sums 8 rows of 2048, one CTA per row: in registers, by shuffles, in shared memory."""
    body = body.replace("SHARED", SHARED)
    return kernel("%x: memref<16384xf32>, %y: memref<8xf32>", body, threads=256, shared=f"%smem: memref<8xf32, {SHARED}>")


CLUSTER = """
    nvvm.cluster.arrive.relaxed
    nvvm.cluster.wait
    %rank = gpu.cluster_block_id x
    %base = memref.extract_aligned_pointer_as_index %smem : memref<2xf32, SHARED> -> index
    %off = arith.muli %rank, %c4 : index
    %p = arith.addi %base, %off : index
    %p64 = arith.index_cast %p : index to i64
    %ptr = llvm.inttoptr %p64 : i64 to !llvm.ptr<3>
    %b32 = arith.index_cast %b : index to i32
    %value = arith.sitofp %b32 : i32 to f32
    %c2 = arith.constant 2 : index
    %sends = arith.cmpi ult, %t, %c2 : index
    scf.if %sends {
      %to = arith.index_cast %t : index to i32
      %there = nvvm.mapa %ptr, %to : !llvm.ptr<3> -> !llvm.ptr<7>
      llvm.store %value, %there : f32, !llvm.ptr<7>
    }
    nvvm.cluster.arrive
    nvvm.cluster.wait
    %four = arith.remui %t, %c2 : index
    %got = memref.load %smem[%four] : memref<2xf32, SHARED>
    %row = arith.muli %b, %c4 : index
    %at = arith.addi %row, %t : index
    %in = arith.cmpi ult, %t, %c4 : index
    scf.if %in {
      memref.store %got, %y[%at] : memref<16xf32>
    }"""


def cluster(body: str = CLUSTER) -> ir.Module:
    """Returns a kernel in which every CTA sends its number to both CTAs of its cluster, and writes what it received."""
    return kernel("%y: memref<16xf32>", body.replace("SHARED", SHARED), shared=f"%smem: memref<2xf32, {SHARED}>")
