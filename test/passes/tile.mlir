// Kernel functions on tensors become tile programs on memrefs: blocks along the contiguous axis, a masked tail.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile{target=cpu})' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile{round-intermediates=true})' | FileCheck %s --check-prefix=ROUND

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0, 0)>
#t = affine_map<(d0, d1) -> (d1, d0)>

// The axes of a pointwise kernel are one; bool lives in bytes.
// CHECK-LABEL: func.func private @positive(%arg0: memref<10x13xf32>, %arg1: memref<10x13xi8>)
// CHECK-SAME: tile.bytes = 650
// CHECK-SAME: tile.grid = 1
// CHECK: tile.program_id
// CHECK: scf.for %{{.*}} = %c0 to %c128 step %c64
// CHECK: vector.transfer_read {{.*}} vector<64xf32>
// CHECK: arith.cmpf ogt
// CHECK: arith.extui {{.*}} vector<64xi1> to vector<64xi8>
// CHECK: vector.transfer_write
// CHECK: vector.create_mask %c2
func.func private @positive(%x: tensor<10x13xf32>) -> tensor<10x13xi1> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<10x13xi1>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<10x13xf32>) outs(%e : tensor<10x13xi1>) {
  ^bb0(%a: f32, %acc: i1):
    %0 = arith.cmpf ogt, %a, %zero : f32
    linalg.yield %0 : i1
  } -> tensor<10x13xi1>
  return %r : tensor<10x13xi1>
}

// exp is needed by the sum and by the result: computed once a row, kept in scratch memory.
// CHECK-LABEL: func.func private @exp_share
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<128xf32>
// CHECK: scf.for
// CHECK: scf.for {{.*}} iter_args
// CHECK: math.exp
// CHECK: vector.transfer_write
// CHECK: vector.reduction <add>, {{.*}} fastmath<reassoc>
// CHECK: scf.for
// CHECK-NOT: math.exp
// CHECK: arith.divf
func.func private @exp_share(%x: tensor<96x128xf32>) -> tensor<96x128xf32> attributes {graph.kernel} {
  %zero = arith.constant dense<0.0> : tensor<96x1xf32>
  %e = tensor.empty() : tensor<96x128xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<96x128xf32>) outs(%e : tensor<96x128xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<96x128xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<96x128xf32>) outs(%zero : tensor<96x1xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<96x1xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %s : tensor<96x128xf32>, tensor<96x1xf32>) outs(%e : tensor<96x128xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<96x128xf32>
  return %r : tensor<96x128xf32>
}

// A read across the vector axis: squares are transposed in registers.
// CHECK-LABEL: func.func private @crossed
// CHECK-SAME: tile.grid = 2
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<64x64xf32>
// CHECK: vector.transfer_read {{.*}} permutation_map = #{{.*}} vector<16x16xf32>
// CHECK: vector.transfer_write {{.*}} vector<16x16xf32>, memref<64x64xf32>
// CHECK: arith.negf
func.func private @crossed(%x: tensor<64x128xf32>) -> tensor<128x64xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<128x64xf32>
  %r = linalg.generic {indexing_maps = [#t, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x128xf32>) outs(%e : tensor<128x64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<128x64xf32>
  return %r : tensor<128x64xf32>
}

// Rows by an index from memory; an index out of range is reported.
// CHECK-LABEL: func.func private @embedding
// CHECK: memref.load
// CHECK: "tile.check"(%{{.*}}) {message = "index out of range: expected 0 <= index < 50"}
// CHECK: vector.transfer_read
func.func private @embedding(%w: tensor<50x64xf32>, %i: tensor<7xi64>) -> tensor<7x64xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<7x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, #id], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<7xi64>) outs(%e : tensor<7x64xf32>) {
  ^bb0(%a: i64, %acc: f32):
    %row = arith.index_cast %a : i64 to index
    %col = linalg.index 1 : index
    %0 = tensor.extract %w[%row, %col] : tensor<50x64xf32>
    linalg.yield %0 : f32
  } -> tensor<7x64xf32>
  return %r : tensor<7x64xf32>
}

// With round-intermediates the sum is rounded to bf16 before it is used again.
// ROUND-LABEL: func.func private @half
// ROUND: arith.addf
// ROUND-NEXT: arith.truncf {{.*}} to vector<16xbf16>
// ROUND-NEXT: arith.extf {{.*}} to vector<16xf32>
// ROUND: arith.mulf
func.func private @half(%x: tensor<16xbf16>) -> tensor<16xbf16> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<16xbf16>
  %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<16xbf16>) outs(%e : tensor<16xbf16>) {
  ^bb0(%a: bf16, %acc: bf16):
    %0 = arith.addf %a, %a : bf16
    %1 = arith.mulf %0, %a : bf16
    linalg.yield %1 : bf16
  } -> tensor<16xbf16>
  return %r : tensor<16xbf16>
}

// The result of a row is stored once, its elements are read often: blocks lie along what is read.
// CHECK-LABEL: func.func private @row_maximum
// CHECK: vector.transfer_read {{.*}} vector<64xf32>
// CHECK: vector.reduction <maximumf>
// CHECK: memref.store {{.*}} memref<64xf32>
func.func private @row_maximum(%x: tensor<64x96xf32>) -> tensor<64xf32> attributes {graph.kernel} {
  %low = arith.constant dense<0xFF800000> : tensor<64xf32>
  %r = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x96xf32>) outs(%low : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.maximumf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  return %r : tensor<64xf32>
}

// A result without elements has strides that LLVM's bare pointers can be made of.
// CHECK-LABEL: func.func private @empty
// CHECK-SAME: memref<1x0xf32, strided<[1, 1]>>
// CHECK-SAME: tile.grid = 0
func.func private @empty() -> tensor<1x0xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x0xf32>
  %r = linalg.fill ins(%zero : f32) outs(%e : tensor<1x0xf32>) -> tensor<1x0xf32>
  return %r : tensor<1x0xf32>
}
