// What is gathered along the columns and read by two loops over them is kept in scratch memory.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile)' | FileCheck %s

// CHECK-LABEL: func.func private @centered
// CHECK: %[[KEPT:.*]] = memref.alloca() {{.*}} memref<192xf32>
// CHECK: scf.for
// CHECK: %[[X:.*]] = "tile.gather"(%reinterpret_cast
// CHECK: vector.transfer_write %[[X]], %[[KEPT]]
// CHECK: vector.reduction
// CHECK-NOT: tile.gather
// CHECK: vector.transfer_read %[[KEPT]]
// CHECK: vector.transfer_write
#swap = affine_map<(i, j) -> (j, i)>
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
func.func private @centered(%x: tensor<192x48xf32>) -> tensor<48x192xf32> attributes {graph.kernel} {
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<48xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<48xf32>) -> tensor<48xf32>
  %m = linalg.generic {indexing_maps = [#swap, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<192x48xf32>) outs(%f : tensor<48xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.maximumf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<48xf32>
  %o = tensor.empty() : tensor<48x192xf32>
  %r = linalg.generic {indexing_maps = [#swap, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<192x48xf32>, tensor<48xf32>) outs(%o : tensor<48x192xf32>) {
  ^bb0(%a: f32, %b: f32, %u: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<48x192xf32>
  return %r : tensor<48x192xf32>
}

// Rows at an index from memory are summed in blocks along the rows, although the results are neighbors across them.
// CHECK-LABEL: func.func private @gathered_rows
// CHECK-NOT: tile.gather
// CHECK: vector.transfer_read {{.*}} memref<3200xf32>, vector<64xf32>
// CHECK-NOT: tile.gather
// CHECK: vector.reduction <add>
func.func private @gathered_rows(%w: tensor<50x64xf32>, %i: tensor<4096xi64>) -> tensor<4096xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4096xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4096xf32>) -> tensor<4096xf32>
  %g = tensor.empty() : tensor<4096x64xf32>
  %r = linalg.generic {indexing_maps = [#row, #id], iterator_types = ["parallel", "parallel"]} ins(%i : tensor<4096xi64>) outs(%g : tensor<4096x64xf32>) {
  ^bb0(%a: i64, %u: f32):
    %at = arith.index_cast %a : i64 to index
    %column = linalg.index 1 : index
    %0 = tensor.extract %w[%at, %column] : tensor<50x64xf32>
    linalg.yield %0 : f32
  } -> tensor<4096x64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<4096x64xf32>) outs(%f : tensor<4096xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %b, %a : f32
    linalg.yield %0 : f32
  } -> tensor<4096xf32>
  return %s : tensor<4096xf32>
}

// What is computed once a row does not make blocks narrower: the index of a row is fixed up, and two rows are multiplied.
// CHECK-LABEL: func.func private @gathered_products
// CHECK: vector.transfer_read {{.*}} memref<3200xf32>, vector<64xf32>
// CHECK: vector.reduction <add>
func.func private @gathered_products(%w: tensor<50x64xf32>, %i: tensor<4096xi64>, %j: tensor<4096xi64>) -> tensor<4096xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0 : i64
  %all = arith.constant 50 : i64
  %e = tensor.empty() : tensor<4096xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4096xf32>) -> tensor<4096xf32>
  %g = tensor.empty() : tensor<4096x64xf32>
  %r = linalg.generic {indexing_maps = [#row, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%i, %j : tensor<4096xi64>, tensor<4096xi64>) outs(%g : tensor<4096x64xf32>) {
  ^bb0(%a: i64, %b: i64, %u: f32):
    %column = linalg.index 1 : index
    %a0 = arith.cmpi slt, %a, %none : i64
    %a1 = arith.addi %a, %all : i64
    %a2 = arith.select %a0, %a1, %a : i64
    %a3 = arith.index_cast %a2 : i64 to index
    %b0 = arith.cmpi slt, %b, %none : i64
    %b1 = arith.addi %b, %all : i64
    %b2 = arith.select %b0, %b1, %b : i64
    %b3 = arith.index_cast %b2 : i64 to index
    %0 = tensor.extract %w[%a3, %column] : tensor<50x64xf32>
    %1 = tensor.extract %w[%b3, %column] : tensor<50x64xf32>
    %b4 = arith.sitofp %b2 : i64 to f32
    %b5 = math.exp %b4 : f32
    %2 = arith.mulf %0, %b5 : f32
    %3 = arith.mulf %1, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<4096x64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%r : tensor<4096x64xf32>) outs(%f : tensor<4096xf32>) {
  ^bb0(%a: f32, %b: f32):
    %0 = arith.addf %b, %a : f32
    linalg.yield %0 : f32
  } -> tensor<4096xf32>
  return %s : tensor<4096xf32>
}
