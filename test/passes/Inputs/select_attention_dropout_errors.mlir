func.func @f(%q: tensor<2x4x40x64xbf16>) -> tensor<2x4x40x64xbf16> {
  %0 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit, 0.5], callee = "aten._scaled_dot_product_flash_attention.default", kwargs = {}, reason = "library", strides = [array<i64: 10240, 64, 256, 1>], graph.choice = "forward{m=64}"} : (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>) -> tensor<2x4x40x64xbf16>
  return %0 : tensor<2x4x40x64xbf16>
}
