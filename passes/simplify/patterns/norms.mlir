// Made from norms.py by `python -m lamina.passes.simplify.patterns.trace`.

func.func @pattern_0(%arg0: tensor<1013x1000003xf32>, %arg1: tensor<f32>) -> tensor<1013x1000003xf32> attributes {rule = "layer_norm", scalars = array<i64: 1>} {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0x49742430 : f32
  %0 = tensor.empty() : tensor<1013x1xf32>
  %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<1013x1xf32>) -> tensor<1013x1xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%1 : tensor<1013x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %7 = arith.addf %in, %out : f32
    linalg.yield %7 : f32
  } -> tensor<1013x1xf32>
  %3 = tensor.empty() : tensor<1013x1000003xf32>
  %4 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0, %2 : tensor<1013x1000003xf32>, tensor<1013x1xf32>) outs(%3 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %in_1: f32, %out: f32):
    %7 = arith.divf %in_1, %cst_0 : f32
    %8 = arith.subf %in, %7 : f32
    linalg.yield %8 : f32
  } -> tensor<1013x1000003xf32>
  %5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>], iterator_types = ["parallel", "reduction"]} ins(%4 : tensor<1013x1000003xf32>) outs(%1 : tensor<1013x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %7 = arith.mulf %in, %in : f32
    %8 = arith.addf %7, %out : f32
    linalg.yield %8 : f32
  } -> tensor<1013x1xf32>
  %6 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%4, %5, %arg1 : tensor<1013x1000003xf32>, tensor<1013x1xf32>, tensor<f32>) outs(%3 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %in_1: f32, %in_2: f32, %out: f32):
    %7 = arith.divf %in_1, %cst_0 : f32
    %8 = arith.addf %7, %in_2 : f32
    %9 = math.rsqrt %8 : f32
    %10 = arith.mulf %in, %9 : f32
    linalg.yield %10 : f32
  } -> tensor<1013x1000003xf32>
  return %6 : tensor<1013x1000003xf32>
}

func.func @pattern_1(%arg0: tensor<1013x1000003xf32>, %arg1: tensor<f32>) -> tensor<1013x1000003xf32> attributes {rule = "rms_norm", scalars = array<i64: 1>} {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0x49742430 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  %1 = tensor.empty() : tensor<1013x1xf32>
  %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<1013x1xf32>) -> tensor<1013x1xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%2 : tensor<1013x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %5 = arith.mulf %in, %in : f32
    %6 = arith.addf %5, %out : f32
    linalg.yield %6 : f32
  } -> tensor<1013x1xf32>
  %4 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0, %3, %arg1 : tensor<1013x1000003xf32>, tensor<1013x1xf32>, tensor<f32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %in_1: f32, %in_2: f32, %out: f32):
    %5 = arith.divf %in_1, %cst_0 : f32
    %6 = arith.addf %5, %in_2 : f32
    %7 = math.rsqrt %6 : f32
    %8 = arith.mulf %in, %7 : f32
    linalg.yield %8 : f32
  } -> tensor<1013x1000003xf32>
  return %4 : tensor<1013x1000003xf32>
}

func.func @replacement_1(%arg0: tensor<1013x1000003xf32>, %arg1: tensor<f32>) -> tensor<1013x1000003xf32> attributes {rule = "rms_norm", scalars = array<i64: 1>} {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 0x49742430 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  %1 = tensor.empty() : tensor<1013x1xf32>
  %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<1013x1xf32>) -> tensor<1013x1xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%2 : tensor<1013x1xf32>) {
  ^bb0(%in: f32, %out: f32):
    %5 = arith.mulf %in, %in : f32
    %6 = arith.addf %5, %out : f32
    linalg.yield %6 : f32
  } -> tensor<1013x1xf32>
  %4 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0, %3, %arg1 : tensor<1013x1000003xf32>, tensor<1013x1xf32>, tensor<f32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %in_1: f32, %in_2: f32, %out: f32):
    %5 = arith.divf %in_1, %cst_0 : f32
    %6 = arith.addf %5, %in_2 : f32
    %7 = math.rsqrt %6 : f32
    %8 = arith.mulf %in, %7 : f32
    linalg.yield %8 : f32
  } -> tensor<1013x1000003xf32>
  return %4 : tensor<1013x1000003xf32>
}
