// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-gpu-to-nvvm)' | FileCheck %s

// Pointers: aligned, apart from each other, read only where nothing is written, also through a view.
// CHECK-LABEL: gpu.func @pointers
// CHECK-SAME: %{{[^:]*}}: memref<64xf32> {llvm.align = 16 : i64, llvm.noalias, llvm.nonnull, llvm.readonly}
// CHECK-SAME: %{{[^:]*}}: memref<64xf32> {llvm.align = 4 : i64, llvm.nonnull}
// CHECK-SAME: %{{[^:]*}}: memref<8x8xf32> {llvm.align = 16 : i64, llvm.noalias, llvm.nonnull})
// CHECK-SAME: workgroup({{.*}} {llvm.align = 16 : i64})
// CHECK-NOT: tile.
gpu.module @kernels {
  gpu.func @pointers(%a: memref<64xf32>, %b: memref<64xf32>, %c: memref<8x8xf32>)
      workgroup(%w: memref<8xf32, #gpu.address_space<workgroup>>) kernel
      attributes {tile.align = array<i64: 16, 4, 16>, tile.alias = array<i64: 1>, tile.outputs = 2 : i64} {
    %flat = memref.reinterpret_cast %c to offset: [0], sizes: [64], strides: [1] : memref<8x8xf32> to memref<64xf32>
    %i = gpu.thread_id x
    %v = memref.load %a[%i] : memref<64xf32>
    memref.store %v, %b[%i] : memref<64xf32>
    memref.store %v, %flat[%i] : memref<64xf32>
    gpu.return
  }
}

// -----

// A kernel that starts before its inputs are written reads them as memory that changes.
// CHECK-LABEL: gpu.func @dependent
// CHECK-SAME: (%{{[^:]*}}: memref<64xf32> {llvm.align = 16 : i64, llvm.noalias, llvm.nonnull}, %
// CHECK: nvvm.griddepcontrol wait
gpu.module @kernels {
  gpu.func @dependent(%a: memref<64xf32>, %b: memref<64xf32>) kernel attributes {tile.align = array<i64: 16, 16>, tile.dependent} {
    nvvm.griddepcontrol wait
    %i = gpu.thread_id x
    %v = memref.load %a[%i] : memref<64xf32>
    memref.store %v, %b[%i] : memref<64xf32>
    gpu.return
  }
}

// -----

// Marked ops become one instruction a lane; what is not marked stays. Sums and products may fuse.
// CHECK-LABEL: gpu.func @approximations
// CHECK: %[[X0:.*]] = vector.extract %[[X:.*]][0]
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%[[X0]]) : (f32) -> f32
// CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"
// CHECK: %[[E:.*]] = vector.from_elements
// CHECK-COUNT-2: llvm.call_intrinsic "llvm.nvvm.div.full"
// CHECK: llvm.call_intrinsic "llvm.nvvm.rcp.approx.ftz.f"
// CHECK: arith.mulf %{{.*}} fastmath<contract>
// CHECK: llvm.call_intrinsic "llvm.nvvm.rsqrt.approx.f"
// CHECK: llvm.call_intrinsic "llvm.nvvm.sqrt.approx.f"
// CHECK: arith.divf %{{[^ ]*}}, %{{[^ ]*}} : f32
// CHECK: llvm.call_intrinsic "llvm.maxnum"
gpu.module @kernels {
  gpu.func @approximations(%p: memref<8xf32>, %q: memref<8xf32>) kernel {
    %i = gpu.thread_id x
    %x = vector.load %p[%i] : memref<8xf32>, vector<2xf32>
    %e = math.exp2 %x fastmath<afn> : vector<2xf32>
    %d = arith.divf %e, %x fastmath<afn> : vector<2xf32>
    %a = vector.extract %d[0] : f32 from vector<2xf32>
    %b = vector.extract %d[1] : f32 from vector<2xf32>
    %r = arith.divf %a, %b fastmath<arcp,afn> : f32
    %s = math.rsqrt %r fastmath<afn> : f32
    %t = math.sqrt %s fastmath<afn> : f32
    %u = arith.divf %t, %a : f32
    %m = arith.maxnumf %u, %a : f32
    memref.store %m, %q[%i] : memref<8xf32>
    gpu.return
  }
}

// -----

// A reduction of four lanes is a tree: (0 + 1) + (2 + 3).
// CHECK-LABEL: gpu.func @tree
// CHECK: %[[A:.*]] = arith.addf %[[L0:.*]], %[[L1:.*]] fastmath<contract> : f32
// CHECK: %[[B:.*]] = arith.addf %[[L2:.*]], %[[L3:.*]] fastmath<contract> : f32
// CHECK: arith.addf %[[A]], %[[B]] fastmath<contract> : f32
// CHECK: arith.maximumf
// CHECK-NOT: vector.reduction
gpu.module @kernels {
  gpu.func @tree(%p: memref<8xf32>, %q: memref<8xf32>) kernel {
    %i = gpu.thread_id x
    %x = vector.load %p[%i] : memref<8xf32>, vector<4xf32>
    %s = vector.reduction <add>, %x : vector<4xf32> into f32
    %m = vector.reduction <maximumf>, %x : vector<4xf32> into f32
    %t = arith.addf %s, %m : f32
    memref.store %t, %q[%i] : memref<8xf32>
    gpu.return
  }
}

// -----

// Half types are stored; arithmetic is in f32, and f64 and integers come by way of it.
// CHECK-LABEL: gpu.func @halves
// CHECK: %[[WORDS:.*]] = vector.bitcast %{{.*}} : vector<2xbf16> to vector<1xi32>
// CHECK: arith.shli %[[WORDS]]
// CHECK: arith.andi %[[WORDS]]
// CHECK: vector.shuffle {{.*}} [0, 1] : vector<1xf32>, vector<1xf32>
// CHECK: arith.addf %{{.*}} : vector<2xf32>
// CHECK: arith.truncf %{{.*}} : vector<2xf32> to vector<2xbf16>
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.truncf %{{.*}} : f32 to bf16
// CHECK: arith.sitofp %{{.*}} : i64 to f32
// CHECK: arith.truncf %{{.*}} : f32 to bf16
gpu.module @kernels {
  gpu.func @halves(%p: memref<8xbf16>, %d: memref<8xf64>, %n: memref<8xi64>) kernel {
    %i = gpu.thread_id x
    %x = vector.load %p[%i] : memref<8xbf16>, vector<2xbf16>
    %y = arith.addf %x, %x : vector<2xbf16>
    vector.store %y, %p[%i] : memref<8xbf16>, vector<2xbf16>
    %u = memref.load %d[%i] : memref<8xf64>
    %v = arith.truncf %u : f64 to bf16
    memref.store %v, %p[%i] : memref<8xbf16>
    %k = memref.load %n[%i] : memref<8xi64>
    %f = arith.sitofp %k : i64 to bf16
    memref.store %f, %p[%i] : memref<8xbf16>
    gpu.return
  }
}

// -----

// Large angles are reduced in a branch; remainders in a loop of exact steps.
// CHECK-LABEL: gpu.func @branches
// CHECK-NOT: math.sin
// CHECK: scf.if
// CHECK-NOT: arith.remf
// CHECK: scf.while
// CHECK: math.fma %{{.*}} : f64
gpu.module @kernels {
  gpu.func @branches(%p: memref<8xf32>) kernel {
    %i = gpu.thread_id x
    %x = vector.load %p[%i] : memref<8xf32>, vector<2xf32>
    %y = math.sin %x : vector<2xf32>
    %z = arith.remf %y, %x : vector<2xf32>
    vector.store %z, %p[%i] : memref<8xf32>, vector<2xf32>
    gpu.return
  }
}

// -----

// Arithmetic that IEEE rounds and integers stay; marked sums keep the freedom they have.
// CHECK-LABEL: gpu.func @flags
// CHECK: arith.addf %{{.*}} fastmath<reassoc,contract> : f32
// CHECK: arith.addi
// CHECK: llvm.call_intrinsic "llvm.floor"
// CHECK: llvm.call_intrinsic "llvm.sqrt"
// CHECK: arith.divf %{{[^ ]*}}, %{{[^ ]*}} : f64
gpu.module @kernels {
  gpu.func @flags(%p: memref<8xf32>, %d: memref<8xf64>) kernel {
    %i = gpu.thread_id x
    %x = memref.load %p[%i] : memref<8xf32>
    %a = arith.addf %x, %x fastmath<reassoc> : f32
    %j = arith.addi %i, %i : index
    %f = math.floor %a : f32
    memref.store %f, %p[%j] : memref<8xf32>
    %u = memref.load %d[%i] : memref<8xf64>
    %r = math.rsqrt %u : f64
    memref.store %r, %d[%i] : memref<8xf64>
    gpu.return
  }
}

// -----

// CHECK-LABEL: gpu.func @slice
// CHECK: vector.shuffle %[[X:[^ ]*]], %[[X]] [2, 3] : vector<4xf64>, vector<4xf64>
// CHECK-NOT: extract_strided_slice
gpu.module @kernels {
  gpu.func @slice(%p: memref<8xf64>) kernel {
    %i = gpu.thread_id x
    %x = vector.load %p[%i] : memref<8xf64>, vector<4xf64>
    %y = vector.extract_strided_slice %x {offsets = [2], sizes = [2], strides = [1]} : vector<4xf64> to vector<2xf64>
    vector.store %y, %p[%i] : memref<8xf64>, vector<2xf64>
    gpu.return
  }
}

// -----

// Nor are products and sums fused there.
// CHECK-LABEL: gpu.func @consistent
// CHECK-NOT: fastmath
gpu.module @kernels {
  gpu.func @consistent(%a: memref<64xf32>, %b: memref<64xf32>) kernel attributes {tile.align = array<i64: 16, 16>, tile.consistent} {
    %i = gpu.thread_id x
    %v = memref.load %a[%i] : memref<64xf32>
    %p = arith.mulf %v, %v : f32
    %s = arith.addf %p, %v : f32
    memref.store %s, %b[%i] : memref<64xf32>
    gpu.return
  }
}

// -----

// Sums of neighbors are one instruction; a maximum has none, and a single sum stays.
// CHECK-LABEL: gpu.func @neighbors
// CHECK: %[[V:.*]] = vector.from_elements %[[X:[^,]*]], %[[X]] : vector<2xf32>
// CHECK: llvm.addrspacecast %{{.*}} : !llvm.ptr to !llvm.ptr<1>
// CHECK: llvm.inline_asm has_side_effects "red.relaxed.gpu.global.add.v2.f32 [$0], {$1, $2};", "l,f,f,~{memory}"
// CHECK: memref.atomic_rmw maxs
// CHECK: memref.atomic_rmw maxs
// CHECK: llvm.inline_asm has_side_effects "red.relaxed.gpu.global.add.noftz.bf16x2 [$0], $1;", "l,r,~{memory}"
// CHECK: memref.atomic_rmw addf
// CHECK-NOT: memref.atomic_rmw
// CHECK: gpu.return
gpu.module @kernels {
  gpu.func @neighbors(%p: memref<64xf32>, %q: memref<64xi32>, %r: memref<64xbf16>, %n: i32) kernel attributes {tile.align = array<i64: 16, 16, 16, 16>} {
    %i = gpu.thread_id x
    %one = arith.constant 1 : index
    %j = arith.addi %i, %one : index
    %x = memref.load %p[%i] : memref<64xf32>
    %y = memref.load %r[%i] : memref<64xbf16>
    %0 = memref.atomic_rmw addf %x, %p[%i] {tile.neighbors = 2 : i64} : (f32, memref<64xf32>) -> f32
    %1 = memref.atomic_rmw addf %x, %p[%j] {tile.neighbors = 2 : i64} : (f32, memref<64xf32>) -> f32
    %2 = memref.atomic_rmw maxs %n, %q[%i] {tile.neighbors = 2 : i64} : (i32, memref<64xi32>) -> i32
    %3 = memref.atomic_rmw maxs %n, %q[%j] {tile.neighbors = 2 : i64} : (i32, memref<64xi32>) -> i32
    %4 = memref.atomic_rmw addf %y, %r[%i] {tile.neighbors = 2 : i64} : (bf16, memref<64xbf16>) -> bf16
    %5 = memref.atomic_rmw addf %y, %r[%j] {tile.neighbors = 2 : i64} : (bf16, memref<64xbf16>) -> bf16
    %6 = memref.atomic_rmw addf %x, %p[%i] : (f32, memref<64xf32>) -> f32
    gpu.return
  }
}

// -----

// A load of one element under a guard becomes one under a predicate; constants of its index are added last.
// CHECK-LABEL: gpu.func @guarded
// CHECK: %[[P:.*]] = arith.cmpi
// CHECK: arith.addi %{{.*}}, %{{.*}} overflow<nsw> : index
// CHECK: %[[AT:.*]] = llvm.getelementptr
// CHECK: llvm.getelementptr %[[AT]][-1] : (!llvm.ptr) -> !llvm.ptr, i32
// CHECK: llvm.addrspacecast
// CHECK: llvm.inline_asm "mov.b32 $0, $3; @$2 ld.global.nc.b32 $0, [$1];", "=r,l,b,r" %{{.*}}, %[[P]], %{{.*}} : (!llvm.ptr<1>, i1, i32) -> i32
// CHECK: arith.bitcast {{.*}} : i32 to f32
// CHECK: vector.load {{.*}} vector<8xbf16>
// CHECK: llvm.getelementptr %{{.*}}[3] : (!llvm.ptr) -> !llvm.ptr, i16
// CHECK: llvm.inline_asm "mov.b16 $0, $3; @$2 ld.global.nc.b16 $0, [$1];", "=h,l,b,h"
// CHECK: arith.bitcast {{.*}} : i16 to bf16
gpu.module @kernels {
  gpu.func @guarded(%x: memref<64xf32>, %h: memref<64xbf16>, %y: memref<64xf32>, %z: memref<64xbf16>) kernel {
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %c1 = arith.constant -1 : index
    %zero = arith.constant 0.0 : f32
    %none = arith.constant 0.0 : bf16
    %zeros = arith.constant dense<0.0> : vector<8xbf16>
    %i = gpu.thread_id x
    %j = gpu.block_id x
    %p = arith.cmpi sge, %i, %c3 : index
    %a = arith.addi %c1, %j : index
    %at = arith.addi %a, %i : index
    %s = arith.select %p, %at, %c0 : index
    %v = memref.load %x[%s] : memref<64xf32>
    %r = arith.select %p, %v, %zero : f32
    memref.store %r, %y[%i] : memref<64xf32>
    %s8 = arith.select %p, %i, %c0 : index
    %v8 = vector.load %h[%s8] : memref<64xbf16>, vector<8xbf16>
    %r8 = arith.select %p, %v8, %zeros : vector<8xbf16>
    vector.store %r8, %z[%i] : memref<64xbf16>, vector<8xbf16>
    %index = vector.from_elements %i, %j : vector<2xindex>
    %three = vector.broadcast %c3 : index to vector<2xindex>
    %both = arith.addi %three, %index : vector<2xindex>
    %lane = vector.extract %both[1] : index from vector<2xindex>
    %s1 = arith.select %p, %lane, %c0 : index
    %v1 = memref.load %h[%s1] : memref<64xbf16>
    %r1 = arith.select %p, %v1, %none : bf16
    memref.store %r1, %z[%i] : memref<64xbf16>
    gpu.return
  }
}

// -----

// What the kernel before writes is not read through the read-only cache, nor moved past the wait for it. Memory that this kernel
// writes, also through another argument, and a load under another condition than its index, stay as they are.
// CHECK-LABEL: gpu.func @guarded_later
// CHECK: nvvm.griddepcontrol wait
// CHECK-NEXT: %[[ZERO:.*]] = llvm.inline_asm has_side_effects "mov.b64 $0, 0;"
// CHECK: llvm.getelementptr %{{.*}}[%[[ZERO]]] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK: llvm.inline_asm "mov.b32 $0, $3; @$2 ld.global.b32 $0, [$1];"
// CHECK-NOT: llvm.inline_asm
// CHECK-COUNT-3: memref.load
gpu.module @kernels {
  gpu.func @guarded_later(%x: memref<64xf32>, %y: memref<64xf32>, %z: memref<64xf32>) kernel
      attributes {tile.alias = array<i64: 1, 2>, tile.dependent} {
    nvvm.griddepcontrol wait
    %c0 = arith.constant 0 : index
    %c3 = arith.constant 3 : index
    %zero = arith.constant 0.0 : f32
    %i = gpu.thread_id x
    %p = arith.cmpi sge, %i, %c3 : index
    %q = arith.cmpi slt, %i, %c3 : index
    %s = arith.select %p, %i, %c0 : index
    %v = memref.load %x[%s] : memref<64xf32>
    %r = arith.select %p, %v, %zero : f32
    %w = memref.load %y[%s] : memref<64xf32>
    %t = arith.select %p, %w, %r : f32
    %o = arith.select %q, %i, %c0 : index
    %u = memref.load %x[%o] : memref<64xf32>
    %m = arith.select %p, %u, %t : f32
    %b = memref.load %z[%s] : memref<64xf32>
    %k = arith.select %p, %b, %m : f32
    memref.store %k, %y[%i] : memref<64xf32>
    gpu.return
  }
}

// -----

// Neighbors that are read one by one stay as they are where a loop moves over them by one: its steps share loads.
// CHECK-LABEL: gpu.func @window
// CHECK: scf.for
// CHECK-COUNT-2: memref.load
// CHECK: llvm.inline_asm
gpu.module @kernels {
  gpu.func @window(%x: memref<64xf32>, %y: memref<64xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %zero = arith.constant 0.0 : f32
    %none = arith.constant dense<0.0> : vector<2xf32>
    %i = gpu.thread_id x
    %sums = scf.for %k = %c0 to %c3 step %c1 iter_args(%sum = %none) -> vector<2xf32> {
      %at = arith.addi %i, %k : index
      %next = arith.addi %at, %c1 : index
      %p = arith.cmpi sge, %at, %c1 : index
      %q = arith.cmpi sge, %next, %c1 : index
      %s = arith.select %p, %at, %c0 : index
      %t = arith.select %q, %next, %c0 : index
      %v = memref.load %x[%s] : memref<64xf32>
      %w = memref.load %x[%t] : memref<64xf32>
      %a = arith.select %p, %v, %zero : f32
      %b = arith.select %q, %w, %zero : f32
      %both = vector.from_elements %a, %b : vector<2xf32>
      %more = arith.addf %sum, %both : vector<2xf32>
      scf.yield %more : vector<2xf32>
    }
    %r = arith.cmpi sge, %i, %c3 : index
    %u = arith.select %r, %i, %c0 : index
    %l = memref.load %x[%u] : memref<64xf32>
    %m = arith.select %r, %l, %zero : f32
    %first = vector.extract %sums[0] : f32 from vector<2xf32>
    %sum = arith.addf %first, %m : f32
    memref.store %sum, %y[%i] : memref<64xf32>
    gpu.return
  }
}
