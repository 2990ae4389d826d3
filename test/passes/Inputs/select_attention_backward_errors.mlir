func.func @f(%q: tensor<2x4x40x64xbf16>, %sums: tensor<2x4x64xf32>, %seed: tensor<i64>) -> tensor<2x4x40x64xbf16> {
  %0:3 = "graph.extern"(%q, %q, %q, %q, %q, %sums, %seed, %seed) {args = [unit, unit, unit, unit, none, unit, unit, unit, unit, 0.0, [true, true, true, false], false], callee = "aten._scaled_dot_product_efficient_attention_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>, none], graph.choice = "forward{m=64}"} : (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x64xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>)
  return %0#0 : tensor<2x4x40x64xbf16>
}

// -----

func.func @f(%q: tensor<2x4x40x64xbf16>) -> tensor<2x4x40x64xbf16> {
  %0 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit], callee = "aten._scaled_dot_product_flash_attention.default", kwargs = {}, reason = "library", strides = [array<i64: 10240, 64, 256, 1>], graph.choice = "backward{m=64}"} : (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>) -> tensor<2x4x40x64xbf16>
  return %0 : tensor<2x4x40x64xbf16>
}

// -----

func.func @f(%q: tensor<2x4x40x64xbf16>, %sums: tensor<2x4x64xf32>, %seed: tensor<i64>) -> tensor<2x4x40x64xbf16> {
  %0:3 = "graph.extern"(%q, %q, %q, %q, %q, %sums, %seed, %seed) {args = [unit, unit, unit, unit, none, unit, unit, unit, unit, 0.0, [true, true, true, false], false], callee = "aten._scaled_dot_product_efficient_attention_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>, none], graph.choice = "backward{keys=48}"} : (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x64xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>)
  return %0#0 : tensor<2x4x40x64xbf16>
}

// -----

func.func @f(%q: tensor<2x4x40x64xbf16>, %sums: tensor<2x4x64xf32>, %seed: tensor<i64>) -> tensor<2x4x40x64xbf16> {
  %0:3 = "graph.extern"(%q, %q, %q, %q, %q, %sums, %seed, %seed) {args = [unit, unit, unit, unit, none, unit, unit, unit, unit, 0.0, [true, true, true, false], false], callee = "aten._scaled_dot_product_efficient_attention_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>, none], graph.choice = "backward{m=64 blocks=1}"} : (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x64xf32>, tensor<i64>, tensor<i64>) -> (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>)
  return %0#0 : tensor<2x4x40x64xbf16>
}
