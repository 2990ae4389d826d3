// Rows whose length the call decides, on a CPU: whole blocks, narrower ones for what these leave, of which the last is masked, and loops of
// their own for what is padded.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile{target=cpu})' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile{target=nvvm:sm_90a})' | FileCheck %s --check-prefix=GPU
#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// A program takes a part of long rows, and several short ones.
// CHECK-LABEL: func.func private @scaled
// CHECK-SAME: tile.grid = "((-s0~8)//(-((-8192)//(min(8192, s1~70)))))*((-s1~70)//(8192))"
// CHECK: %[[END:.*]] = arith.minui %{{.*}}, %c8192
// CHECK: %[[LEFT:.*]] = arith.remui %[[END]], %c64
// CHECK: %[[WHOLE:.*]] = arith.subi %[[END]], %[[LEFT]]
// CHECK: %[[MASKED:.*]] = arith.remui %{{.*}}, %c8
// CHECK: %[[NARROW:.*]] = arith.subi %[[END]], %[[MASKED]]
// CHECK: scf.for {{.*}} step %c1
// CHECK: scf.for {{.*}} to %[[WHOLE]] step %c64
// CHECK: vector.transfer_write {{.*}}vector<64xf32>
// CHECK: scf.for {{.*}} = %[[WHOLE]] to %[[NARROW]] step %c8
// CHECK-NOT: create_mask
// CHECK: scf.if
// CHECK: %[[LANES:.*]] = arith.subi %[[END]], %[[NARROW]]
// CHECK: vector.create_mask %[[LANES]] : vector<8xi1>
func.func private @scaled(%x: tensor<?x?xf32, ["s0~8", "s1~70"]>, %f: tensor<?xf32, ["s0~8"]>) -> tensor<?x?xf32, ["s0~8", "s1~70"]> attributes {graph.kernel} {
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %m = "graph.size"() {size = "s1~70"} : () -> index
  %e = tensor.empty(%n, %m) : tensor<?x?xf32, ["s0~8", "s1~70"]>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %f : tensor<?x?xf32, ["s0~8", "s1~70"]>, tensor<?xf32, ["s0~8"]>) outs(%e : tensor<?x?xf32, ["s0~8", "s1~70"]>) {
  ^bb0(%a: f32, %b: f32, %u: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<?x?xf32, ["s0~8", "s1~70"]>
  return %r : tensor<?x?xf32, ["s0~8", "s1~70"]>
}

// In front of the row, at least one block of zeros: nothing is loaded. Then the row itself, which asks for no bounds, and zeros again.
// CHECK-LABEL: func.func private @padded
// CHECK: scf.for {{.*}} step %c1
// CHECK: scf.if
// CHECK-NOT: transfer_read
// CHECK: vector.transfer_write
// CHECK: scf.for {{.*}} step %c64
// CHECK-NOT: create_mask
// CHECK: vector.transfer_read {{.*}}vector<64xf32>
// CHECK: scf.for {{.*}} step %c8
// CHECK: vector.transfer_read {{.*}}vector<8xf32>
// CHECK: vector.create_mask
// CHECK: vector.transfer_read {{.*}}vector<8xf32>
// CHECK-NOT: transfer_read
// CHECK: return

// Lanes are compared with the bounds on a GPU.
// GPU-LABEL: func.func private @padded
// GPU: arith.cmpi sge
// GPU: vector.transfer_read
// GPU-NOT: transfer_read
// GPU: return
func.func private @padded(%x: tensor<?x?xf32, ["s0~8", "s1~70"]>) -> tensor<?x?xf32, ["s0~8", "s1~70 + 8"]> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %m = "graph.size"() {size = "s1~70 + 8"} : () -> index
  %p = tensor.pad %x low[0, 3] high[0, 5] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<?x?xf32, ["s0~8", "s1~70"]> to tensor<?x?xf32, ["s0~8", "s1~70 + 8"]>
  %e = tensor.empty(%n, %m) : tensor<?x?xf32, ["s0~8", "s1~70 + 8"]>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<?x?xf32, ["s0~8", "s1~70 + 8"]>) outs(%e : tensor<?x?xf32, ["s0~8", "s1~70 + 8"]>) {
  ^bb0(%a: f32, %u: f32):
    %0 = arith.addf %a, %a : f32
    linalg.yield %0 : f32
  } -> tensor<?x?xf32, ["s0~8", "s1~70 + 8"]>
  return %r : tensor<?x?xf32, ["s0~8", "s1~70 + 8"]>
}

// The exponentials are kept where scratch memory holds a row of them; longer rows compute them again.
// CHECK-LABEL: func.func private @exponentials
// CHECK: memref.alloca() {{.*}}memref<65536xf32>
// CHECK: %[[FITS:.*]] = arith.cmpi sle
// CHECK: scf.if %[[FITS]]
// CHECK-COUNT-3: math.exp
// CHECK-NOT: math.exp
// CHECK: else
// CHECK-COUNT-6: math.exp
func.func private @exponentials(%x: tensor<?x?xf32, ["s0~8", "s1~70"]>) -> tensor<?x?xf32, ["s0~8", "s1~70"]> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %m = "graph.size"() {size = "s1~70"} : () -> index
  %e = tensor.empty(%n) : tensor<?xf32, ["s0~8"]>
  %w = tensor.empty(%n, %m) : tensor<?x?xf32, ["s0~8", "s1~70"]>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32, ["s0~8"]>) -> tensor<?xf32, ["s0~8"]>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x?xf32, ["s0~8", "s1~70"]>) outs(%w : tensor<?x?xf32, ["s0~8", "s1~70"]>) {
  ^bb0(%a: f32, %u: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<?x?xf32, ["s0~8", "s1~70"]>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%p : tensor<?x?xf32, ["s0~8", "s1~70"]>) outs(%f : tensor<?xf32, ["s0~8"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s0~8"]>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %s : tensor<?x?xf32, ["s0~8", "s1~70"]>, tensor<?xf32, ["s0~8"]>) outs(%w : tensor<?x?xf32, ["s0~8", "s1~70"]>) {
  ^bb0(%a: f32, %b: f32, %u: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<?x?xf32, ["s0~8", "s1~70"]>
  return %r : tensor<?x?xf32, ["s0~8", "s1~70"]>
}
