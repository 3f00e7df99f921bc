/** Something the person at the keyboard must do before the project can run: printed as it is, without a stack. */
export class SetupError extends Error {
  name = "SetupError";
}
