// Kernels as lamina-plan leaves them.
#map = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0, 0)>
#red = affine_map<(d0, d1) -> (d0)>
#b = affine_map<(d0, d1) -> (d0)>
func.func private @softmax(%x: tensor<64x4096xf32>) -> tensor<64x4096xf32> attributes {graph.kernel} {
  %ninf = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%ninf : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %m = linalg.generic {indexing_maps = [#map, #red], iterator_types = ["parallel","reduction"]} ins(%x : tensor<64x4096xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32): %r = arith.maximumf %a, %o : f32 
   linalg.yield %r : f32 } -> tensor<64xf32>
  %e2 = tensor.empty() : tensor<64x4096xf32>
  %s = linalg.generic {indexing_maps = [#map, #b, #map], iterator_types = ["parallel","parallel"]} ins(%x, %m : tensor<64x4096xf32>, tensor<64xf32>) outs(%e2 : tensor<64x4096xf32>) {
  ^bb0(%a: f32, %mm: f32, %o: f32): %r = arith.subf %a, %mm : f32 
   %x2 = math.exp %r : f32
   linalg.yield %x2 : f32 } -> tensor<64x4096xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %sum = linalg.generic {indexing_maps = [#map, #red], iterator_types = ["parallel","reduction"]} ins(%s : tensor<64x4096xf32>) outs(%f2 : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32): %r = arith.addf %a, %o : f32 
   linalg.yield %r : f32 } -> tensor<64xf32>
  %d = linalg.generic {indexing_maps = [#map, #b, #map], iterator_types = ["parallel","parallel"]} ins(%s, %sum : tensor<64x4096xf32>, tensor<64xf32>) outs(%e2 : tensor<64x4096xf32>) {
  ^bb0(%a: f32, %mm: f32, %o: f32): %r = arith.divf %a, %mm : f32 
   linalg.yield %r : f32 } -> tensor<64x4096xf32>
  return %d : tensor<64x4096xf32>
}
