// Any tile program for a GPU goes down through Triton where that is asked for.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-route-to-triton)' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-route-to-triton{kernels=norm warps=2})' | FileCheck %s --check-prefix=ONE
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-route-to-triton)' -o %t
// RUN: opt-driver %t --target=nvvm:sm_90a --emit=triton | FileCheck %s --check-prefix=TRITON
// RUN: opt-driver %t --target=nvvm:sm_80 --emit=ptx | FileCheck %s --check-prefix=PTX
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=triton | FileCheck %s --check-prefix=OTHERS
// RUN: not opt-driver %s --pass-pipeline='builtin.module(lamina-route-to-triton{kernels=nrm})' 2>&1 | FileCheck %s --check-prefix=ERROR

// One CTA for a program, which the launch that comes before may not overlap; logarithms of 1 + x have no word in Triton.
// CHECK-LABEL: func.func private @norm
// CHECK-NOT: tile.dependent
// CHECK-NOT: tile.pack
// CHECK-SAME: tile.ctas = 5
// CHECK-SAME: tile.threads = 128
// CHECK-SAME: tile.triton = "triton{warps=4 stages=1}"
// CHECK-LABEL: func.func private @logarithms
// CHECK-NOT: math.log1p
// CHECK: math.fma

// ONE-LABEL: func.func private @norm
// ONE-SAME: tile.threads = 64
// ONE-SAME: warps=2
// ONE-LABEL: func.func private @logarithms
// ONE-NOT: tile.triton
// ONE: math.log1p

// Rows of 100 are blocks of 128, the last lanes of which are in no sum.
// TRITON: def norm(x0, y0):
// TRITON: lanes128 = tl.arange(0, 128)
// TRITON: [[MASK:v[0-9]+]] = lanes128 < 100
// TRITON: [[X:v[0-9]+]] = tl.load(x0 + {{v[0-9]+}} + lanes128, mask=[[MASK]]{{.*}}, other=0.0)
// TRITON: [[SUM:v[0-9]+]] = tl.sum(tl.where((lanes128 < 112), {{v[0-9]+}}, 0.0), 0)
// TRITON: [[Y:v[0-9]+]] = [[X]] / [[SUM]]
// TRITON: tl.store(y0 + {{v[0-9]+}} + lanes128, [[Y]], mask=[[MASK]]
// TRITON: def logarithms(

// PTX: .visible .entry norm(
// PTX: .visible .entry logarithms(

// OTHERS: # By lamina-distribute, not by Triton
// OTHERS: def norm(

// ERROR: there is no tile program @nrm for a GPU{{.*}}there are norm, logarithms

module {
  func.func private @norm(%x: memref<5x100xf32>, %o: memref<5x100xf32>) attributes {tile.align = array<i64: 16, 16>, tile.bytes = 4000 : i64, tile.chunks = 1 : i64, tile.cluster = 1 : i64, tile.dependent, tile.flops = 1000 : i64, tile.grid = 5 : i64, tile.outputs = 1 : i64, tile.pack = 2 : i64, tile.resident = 0 : i64, tile.teams = 1 : i64, tile.threads = 128 : i64, tile.vec = 4 : i64} {
    %p = "tile.program_id"() : () -> index
    %fx = memref.reinterpret_cast %x to offset: [0], sizes: [500], strides: [1] : memref<5x100xf32> to memref<500xf32>
    %fo = memref.reinterpret_cast %o to offset: [0], sizes: [500], strides: [1] : memref<5x100xf32> to memref<500xf32>
    %n = arith.constant 100 : index
    %m = vector.create_mask %n : vector<112xi1>
    %i = arith.muli %p, %n : index
    %z = arith.constant 0.0 : f32
    %zeros = arith.constant dense<0.0> : vector<112xf32>
    %v = vector.transfer_read %fx[%i], %z, %m {in_bounds = [true]} : memref<500xf32>, vector<112xf32>
    %w = arith.select %m, %v, %zeros : vector<112xi1>, vector<112xf32>
    %s = vector.reduction <add>, %w fastmath<reassoc> : vector<112xf32> into f32
    %b = vector.broadcast %s : f32 to vector<112xf32>
    %r = arith.divf %v, %b : vector<112xf32>
    vector.transfer_write %r, %fo[%i], %m {in_bounds = [true]} : vector<112xf32>, memref<500xf32>
    return
  }
  func.func private @logarithms(%x: memref<4096xf32>, %o: memref<4096xf32>) attributes {tile.align = array<i64: 16, 16>, tile.bytes = 4000 : i64, tile.chunks = 1 : i64, tile.cluster = 1 : i64, tile.flops = 1000 : i64, tile.grid = 8 : i64, tile.outputs = 1 : i64, tile.pack = 1 : i64, tile.resident = 0 : i64, tile.teams = 1 : i64, tile.threads = 128 : i64, tile.vec = 4 : i64} {
    %p = "tile.program_id"() : () -> index
    %n = arith.constant 512 : index
    %i = arith.muli %p, %n : index
    %z = arith.constant 0.0 : f32
    %v = vector.transfer_read %x[%i], %z {in_bounds = [true]} : memref<4096xf32>, vector<512xf32>
    %r = math.log1p %v : vector<512xf32>
    vector.transfer_write %r, %o[%i] {in_bounds = [true]} : vector<512xf32>, memref<4096xf32>
    return
  }
}
