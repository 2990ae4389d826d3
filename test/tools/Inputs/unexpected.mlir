func.func @f() {
  // Not expected:
  func.call @g() : () -> ()
  return
}
// -----
// expected-warning @+1 {{g}}
func.func @f() { func.call @g() : () -> () 
  return
}
// -----
// expected-error @+1 {{never said}}
func.func @f() { return }
