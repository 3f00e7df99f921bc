/** To stdout: what was asked for. */
export const print = (text: string): void => {
  process.stdout.write(`${text}\n`);
};

/** To stderr: what is said about it. */
export const note = (text: string): void => {
  process.stderr.write(`${text}\n`);
};

/** The body as the service sent it, every field of it. */
export const printJson = (body: unknown): void => print(JSON.stringify(body, null, 2));

/** Columns of the terminal; undefined: there is none, or it does not say. */
export const terminalColumns = (): number | undefined =>
  process.stdout.isTTY ? process.stdout.columns || undefined : undefined;
