// Made from gelu.py by `python -m lamina.passes.simplify.patterns.trace`.

func.func @pattern_0(%arg0: tensor<1013x1000003xf32>) -> tensor<1013x1000003xf32> attributes {rule = "gelu_erf", scalars = array<i64>} {
  %cst = arith.constant 0.70710678118654757 : f64
  %cst_0 = arith.constant 5.000000e-01 : f32
  %cst_1 = arith.constant 1.000000e+00 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.truncf %cst : f64 to f32
    %3 = arith.mulf %in, %2 : f32
    %4 = math.erf %3 : f32
    %5 = arith.addf %4, %cst_1 : f32
    %6 = arith.mulf %in, %cst_0 : f32
    %7 = arith.mulf %6, %5 : f32
    linalg.yield %7 : f32
  } -> tensor<1013x1000003xf32>
  return %1 : tensor<1013x1000003xf32>
}

func.func @replacement_0(%arg0: tensor<1013x1000003xf32>) -> tensor<1013x1000003xf32> attributes {rule = "gelu_erf", scalars = array<i64>} {
  %cst = arith.constant 0.70710678118654757 : f64
  %cst_0 = arith.constant 5.000000e-01 : f32
  %cst_1 = arith.constant 1.000000e+00 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.truncf %cst : f64 to f32
    %3 = arith.mulf %in, %2 : f32
    %4 = math.erf %3 : f32
    %5 = arith.addf %4, %cst_1 : f32
    %6 = arith.mulf %in, %cst_0 : f32
    %7 = arith.mulf %6, %5 : f32
    linalg.yield %7 : f32
  } -> tensor<1013x1000003xf32>
  return %1 : tensor<1013x1000003xf32>
}

func.func @pattern_1(%arg0: tensor<1013x1000003xf32>) -> tensor<1013x1000003xf32> attributes {rule = "gelu_tanh", scalars = array<i64>} {
  %c3_i64 = arith.constant 3 : i64
  %cst = arith.constant 0.79788456080286541 : f64
  %cst_0 = arith.constant 4.471500e-02 : f64
  %cst_1 = arith.constant 5.000000e-01 : f32
  %cst_2 = arith.constant 1.000000e+00 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = math.fpowi %in, %c3_i64 : f32, i64
    %3 = arith.truncf %cst_0 : f64 to f32
    %4 = arith.mulf %2, %3 : f32
    %5 = arith.addf %in, %4 : f32
    %6 = arith.truncf %cst : f64 to f32
    %7 = arith.mulf %5, %6 : f32
    %8 = math.tanh %7 : f32
    %9 = arith.addf %8, %cst_2 : f32
    %10 = arith.mulf %in, %cst_1 : f32
    %11 = arith.mulf %10, %9 : f32
    linalg.yield %11 : f32
  } -> tensor<1013x1000003xf32>
  return %1 : tensor<1013x1000003xf32>
}

func.func @replacement_1(%arg0: tensor<1013x1000003xf32>) -> tensor<1013x1000003xf32> attributes {rule = "gelu_tanh", scalars = array<i64>} {
  %cst = arith.constant -1.5957691216057308 : f64
  %cst_0 = arith.constant 0.071354816272600249 : f64
  %cst_1 = arith.constant 1.000000e+00 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.mulf %in, %in : f32
    %3 = arith.truncf %cst_0 : f64 to f32
    %4 = arith.mulf %2, %3 : f32
    %5 = arith.truncf %cst : f64 to f32
    %6 = arith.subf %5, %4 : f32
    %7 = arith.mulf %in, %6 : f32
    %8 = math.exp %7 : f32
    %9 = arith.addf %8, %cst_1 : f32
    %10 = arith.divf %in, %9 : f32
    linalg.yield %10 : f32
  } -> tensor<1013x1000003xf32>
  return %1 : tensor<1013x1000003xf32>
}

func.func @pattern_2(%arg0: tensor<1013x1000003xf32>) -> tensor<1013x1000003xf32> attributes {rule = "gelu_tanh", scalars = array<i64>} {
  %cst = arith.constant 4.471500e-02 : f64
  %cst_0 = arith.constant 0.79788456080286541 : f64
  %cst_1 = arith.constant 5.000000e-01 : f32
  %cst_2 = arith.constant 1.000000e+00 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.truncf %cst : f64 to f32
    %3 = arith.mulf %in, %2 : f32
    %4 = arith.mulf %3, %in : f32
    %5 = arith.addf %4, %cst_2 : f32
    %6 = arith.truncf %cst_0 : f64 to f32
    %7 = arith.mulf %in, %6 : f32
    %8 = arith.mulf %7, %5 : f32
    %9 = math.tanh %8 : f32
    %10 = arith.addf %9, %cst_2 : f32
    %11 = arith.mulf %in, %cst_1 : f32
    %12 = arith.mulf %11, %10 : f32
    linalg.yield %12 : f32
  } -> tensor<1013x1000003xf32>
  return %1 : tensor<1013x1000003xf32>
}

func.func @replacement_2(%arg0: tensor<1013x1000003xf32>) -> tensor<1013x1000003xf32> attributes {rule = "gelu_tanh", scalars = array<i64>} {
  %cst = arith.constant -1.5957691216057308 : f64
  %cst_0 = arith.constant 0.071354816272600249 : f64
  %cst_1 = arith.constant 1.000000e+00 : f32
  %0 = tensor.empty() : tensor<1013x1000003xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<1013x1000003xf32>) outs(%0 : tensor<1013x1000003xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.mulf %in, %in : f32
    %3 = arith.truncf %cst_0 : f64 to f32
    %4 = arith.mulf %2, %3 : f32
    %5 = arith.truncf %cst : f64 to f32
    %6 = arith.subf %5, %4 : f32
    %7 = arith.mulf %in, %6 : f32
    %8 = math.exp %7 : f32
    %9 = arith.addf %8, %cst_1 : f32
    %10 = arith.divf %in, %9 : f32
    linalg.yield %10 : f32
  } -> tensor<1013x1000003xf32>
  return %1 : tensor<1013x1000003xf32>
}
