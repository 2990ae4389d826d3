func.func @f(%q: tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16> {
  %0 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit], callee = "aten._scaled_dot_product_flash_attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>], graph.choice = "forward{n=48}"} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16>
  return %0 : tensor<2x4x128x64xbf16>
}

// -----

func.func @f(%q: tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16> {
  %0 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit], callee = "aten._scaled_dot_product_flash_attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>], graph.choice = "split{rows=2}"} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16>
  return %0 : tensor<2x4x128x64xbf16>
}

// -----

func.func @f(%q: tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16> {
  %0 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit], callee = "aten._scaled_dot_product_flash_attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>], graph.choice = "split{parts=4}"} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16>
  return %0 : tensor<2x4x128x64xbf16>
}

// -----

func.func @f(%q: tensor<2x4x128x64xf32>) -> tensor<2x4x128x64xf32> {
  %0 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit], callee = "aten._scaled_dot_product_flash_attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>], graph.choice = "forward{m=64}"} : (tensor<2x4x128x64xf32>, tensor<2x4x128x64xf32>, tensor<2x4x128x64xf32>) -> tensor<2x4x128x64xf32>
  return %0 : tensor<2x4x128x64xf32>
}

// -----

func.func @f(%q: tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16> {
  %0 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit], callee = "aten._scaled_dot_product_flash_attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>], graph.choice = "forward{blocks=1}"} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>) -> tensor<2x4x128x64xbf16>
  return %0 : tensor<2x4x128x64xbf16>
}
