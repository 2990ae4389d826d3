// Blocks that reach over the edges of what is padded have loops of their own; their masks are ranges of lanes.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile)' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile,lamina-tile-to-cpu)' | FileCheck %s --check-prefix=LOWERED
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile{target=nvvm:sm_90a})' | FileCheck %s --check-prefix=GPU

// The first block, those within, which ask for nothing, and the last.
// CHECK-LABEL: func.func private @padded
// CHECK: %[[BEFORE:.*]] = vector.create_mask
// CHECK: %[[FIRST:.*]] = arith.xori %[[BEFORE]]
// CHECK: vector.transfer_read {{.*}}, %[[FIRST]]
// CHECK: scf.for %{{.*}} = %c64 to %c960
// CHECK-NOT: create_mask
// CHECK-NOT: arith.cmpi
// CHECK: vector.transfer_read %{{[^,]*}}, %{{[^,]*}} {in_bounds
// CHECK: }
// CHECK: %[[LAST:.*]] = vector.create_mask
// CHECK: vector.transfer_read {{.*}}, %[[LAST]]

// Every second element at the edge: all of what lies between, not a gather.
// LOWERED-LABEL: func.func private @strided.body
// LOWERED: vector.maskedload {{.*}}vector<128xf32>
// LOWERED-NOT: vector.gather
// LOWERED: return

// GPU-LABEL: func.func private @padded
// GPU: arith.cmpi
// GPU-NOT: arith.xori
// GPU: return
#id = affine_map<(i) -> (i)>
#double = affine_map<(i) -> (i * 2)>
func.func private @padded(%x: tensor<1020xf32>) -> tensor<1024xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[2] high[2] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<1020xf32> to tensor<1024xf32>
  %o = tensor.empty() : tensor<1024xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%p : tensor<1024xf32>) outs(%o : tensor<1024xf32>) {
  ^bb0(%a: f32, %u: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<1024xf32>
  return %r : tensor<1024xf32>
}

func.func private @strided(%x: tensor<2045xf32>) -> tensor<1024xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %p = tensor.pad %x low[1] high[2] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<2045xf32> to tensor<2048xf32>
  %o = tensor.empty() : tensor<1024xf32>
  %r = linalg.generic {indexing_maps = [#double, #id], iterator_types = ["parallel"]} ins(%p : tensor<2048xf32>) outs(%o : tensor<1024xf32>) {
  ^bb0(%a: f32, %u: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<1024xf32>
  return %r : tensor<1024xf32>
}
