// Sizes are loaded in front of the program; a program's number needs 64 bits where they have as many.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile{target=nvvm:sm_80},lamina-route-to-triton)' -o %t
// RUN: opt-driver %t --target=nvvm:sm_80 --emit=triton | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile{target=nvvm:sm_80 wide-sizes},lamina-route-to-triton)' -o %t.wide
// RUN: opt-driver %t.wide --target=nvvm:sm_80 --emit=triton | FileCheck %s --check-prefix=WIDE
// RUN: opt-driver %t.wide --target=nvvm:sm_80 --emit=ptx | FileCheck %s --check-prefix=PTX

// CHECK: def logs(x0, y0, sizes):
// CHECK: size0 = tl.load(sizes + 0)
// CHECK: program = tl.program_id(0){{$}}
// CHECK: v1 = program * 128
// CHECK: v2 = size0 - v1
// CHECK: tl.load(x0 + v1 + lanes128, mask={{.*}}, other=0.0)
// WIDE: program = tl.program_id(0).to(tl.int64)
// WIDE: v1 = program * 128
// PTX: ld.global{{.*}}b64

#id = affine_map<(d0) -> (d0)>
!x = tensor<?xf32, ["s0~800"]>
func.func private @logs(%x: !x) -> !x attributes {graph.kernel} {
  %n = "graph.size"() {size = "s0~800"} : () -> index
  %e = tensor.empty(%n) : !x
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : !x) outs(%e : !x) {
  ^bb0(%a: f32, %acc: f32):
    %0 = math.log1p %a : f32
    linalg.yield %0 : f32
  } -> !x
  return %r : !x
}
