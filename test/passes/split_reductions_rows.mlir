// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-split-reductions{rows=32 columns=131072 parts=1024 programs=1056})' | FileCheck %s

#whole = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#rows = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#none = affine_map<(d0, d1, d2, d3) -> ()>

// The whole image is summed in the rows that another reduction has, so that one kernel computes both.
// CHECK-LABEL: func.func @beside
// CHECK: iterator_types = ["parallel", "parallel", "reduction", "reduction"]} {{.*}} outs({{.*}} : tensor<6x15xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "parallel", "reduction", "reduction", "reduction"]} {{.*}} outs({{.*}} : tensor<6x15xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "reduction"]} {{.*}} outs({{.*}} : tensor<f32>)
func.func @beside(%x: tensor<6x15x128x128xf32>) -> (tensor<6x15xf32>, tensor<f32>) {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<6x15xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<6x15xf32>) -> tensor<6x15xf32>
  %0 = linalg.generic {indexing_maps = [#whole, #rows], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x : tensor<6x15x128x128xf32>) outs(%f0 : tensor<6x15xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<6x15xf32>
  %e1 = tensor.empty() : tensor<f32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<f32>) -> tensor<f32>
  %1 = linalg.generic {indexing_maps = [#whole, #none], iterator_types = ["reduction", "reduction", "reduction", "reduction"]} ins(%x : tensor<6x15x128x128xf32>) outs(%f1 : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %0, %1 : tensor<6x15xf32>, tensor<f32>
}

// -----

#whole = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#none = affine_map<(d0, d1, d2, d3) -> ()>

// Where the outermost loop alone makes few or long parts, those behind it are split, too.
// CHECK-LABEL: func.func @alone
// CHECK: -> tensor<8x8x2xf32>
// CHECK: iterator_types = ["reduction", "reduction", "reduction"]
func.func @alone(%x: tensor<8x8x128x128xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %0 = linalg.generic {indexing_maps = [#whole, #none], iterator_types = ["reduction", "reduction", "reduction", "reduction"]} ins(%x : tensor<8x8x128x128xf32>) outs(%f : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

#whole = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
#none = affine_map<(d0, d1) -> ()>

// As many rows as another reduction has, more than there may be parts, are as many parts, whose results are little beside the rows.
// CHECK-LABEL: func.func @many
// CHECK: iterator_types = ["parallel", "reduction"]} {{.*}} outs({{.*}} : tensor<8192xf32>)
// CHECK: iterator_types = ["parallel", "reduction", "reduction"]} {{.*}} outs({{.*}} : tensor<8192xf32>)
// CHECK: iterator_types = ["reduction"]} {{.*}} outs({{.*}} : tensor<f32>)
func.func @many(%x: tensor<8192x96xf32>, %e0: tensor<8192xf32>, %e1: tensor<f32>) -> (tensor<8192xf32>, tensor<f32>) {
  %0 = linalg.generic {indexing_maps = [#whole, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<8192x96xf32>) outs(%e0 : tensor<8192xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<8192xf32>
  %1 = linalg.generic {indexing_maps = [#whole, #none], iterator_types = ["reduction", "reduction"]}
      ins(%x : tensor<8192x96xf32>) outs(%e1 : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %0, %1 : tensor<8192xf32>, tensor<f32>
}

// -----

#whole = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
#none = affine_map<(d0, d1) -> ()>

// What very many rows yield is again summed in parts.
// CHECK-LABEL: func.func @very_many
// CHECK: iterator_types = ["parallel", "reduction", "reduction"]} {{.*}} outs({{.*}} : tensor<524288xf32>)
// CHECK: iterator_types = ["parallel", "reduction"]} {{.*}} outs({{.*}} : tensor<1024xf32>)
// CHECK: iterator_types = ["reduction"]} {{.*}} outs({{.*}} : tensor<f32>)
func.func @very_many(%x: tensor<524288x16xf32>, %e0: tensor<524288xf32>, %e1: tensor<f32>) -> (tensor<524288xf32>, tensor<f32>) {
  %0 = linalg.generic {indexing_maps = [#whole, #rows], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<524288x16xf32>) outs(%e0 : tensor<524288xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.maximumf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<524288xf32>
  %1 = linalg.generic {indexing_maps = [#whole, #none], iterator_types = ["reduction", "reduction"]}
      ins(%x : tensor<524288x16xf32>) outs(%e1 : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %0, %1 : tensor<524288xf32>, tensor<f32>
}
