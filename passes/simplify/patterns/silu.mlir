// Made from silu.py by `python -m lamina.passes.simplify.patterns.trace`.

func.func @pattern_0(%arg0: tensor<1013x1000003xf32>) -> tensor<1013x1000003xf32> attributes {rule = "silu", scalars = array<i64>} {
  %cst = arith.constant 0.000000e+00 : f32
  %cst_0 = arith.constant 1.000000e+00 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32):
    %2 = arith.negf %in : f32
    %3 = math.exp %2 : f32
    %4 = arith.addf %3, %cst_0 : f32
    %5 = arith.cmpf one, %4, %cst : f32
    cf.assert %5, "unimplemented: tensor with zero element"
    linalg.yield
  }
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    %3 = math.exp %2 : f32
    %4 = arith.addf %3, %cst_0 : f32
    %5 = arith.cmpf one, %4, %cst : f32
    cf.assert %5, "unimplemented: tensor with zero element"
    %6 = arith.divf %cst_0, %4 : f32
    %7 = arith.mulf %in, %6 : f32
    linalg.yield %7 : f32
  } -> tensor<1013x1000003xf32>
  return %1 : tensor<1013x1000003xf32>
}

func.func @replacement_0(%arg0: tensor<1013x1000003xf32>) -> tensor<1013x1000003xf32> attributes {rule = "silu", scalars = array<i64>} {
  %cst = arith.constant 1.000000e+00 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    %3 = math.exp %2 : f32
    %4 = arith.addf %3, %cst : f32
    %5 = arith.divf %in, %4 : f32
    linalg.yield %5 : f32
  } -> tensor<1013x1000003xf32>
  return %1 : tensor<1013x1000003xf32>
}

func.func @pattern_1(%arg0: tensor<1013x1000003xf32>) -> tensor<1013x1000003xf32> attributes {rule = "silu", scalars = array<i64>} {
  %cst = arith.constant 5.000000e-01 : f32
  %cst_0 = arith.constant 1.000000e+00 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.mulf %in, %cst : f32
    %3 = math.tanh %2 : f32
    %4 = arith.addf %3, %cst_0 : f32
    %5 = arith.mulf %4, %cst : f32
    %6 = arith.mulf %in, %5 : f32
    linalg.yield %6 : f32
  } -> tensor<1013x1000003xf32>
  return %1 : tensor<1013x1000003xf32>
}

func.func @replacement_1(%arg0: tensor<1013x1000003xf32>) -> tensor<1013x1000003xf32> attributes {rule = "silu", scalars = array<i64>} {
  %cst = arith.constant 1.000000e+00 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    %3 = math.exp %2 : f32
    %4 = arith.addf %3, %cst : f32
    %5 = arith.divf %in, %4 : f32
    linalg.yield %5 : f32
  } -> tensor<1013x1000003xf32>
  return %1 : tensor<1013x1000003xf32>
}

func.func @pattern_2(%arg0: tensor<1013x1000003xf32>) -> tensor<1013x1000003xf32> attributes {rule = "silu", scalars = array<i64>} {
  %cst = arith.constant 5.000000e-01 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.mulf %in, %cst : f32
    %3 = math.tanh %2 : f32
    %4 = arith.mulf %3, %cst : f32
    %5 = arith.addf %4, %cst : f32
    %6 = arith.mulf %in, %5 : f32
    linalg.yield %6 : f32
  } -> tensor<1013x1000003xf32>
  return %1 : tensor<1013x1000003xf32>
}

func.func @replacement_2(%arg0: tensor<1013x1000003xf32>) -> tensor<1013x1000003xf32> attributes {rule = "silu", scalars = array<i64>} {
  %cst = arith.constant 1.000000e+00 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    %3 = math.exp %2 : f32
    %4 = arith.addf %3, %cst : f32
    %5 = arith.divf %in, %4 : f32
    linalg.yield %5 : f32
  } -> tensor<1013x1000003xf32>
  return %1 : tensor<1013x1000003xf32>
}
