import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** A request that the door answers itself. */
export class Refusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** git tells its password only when it is asked for it. */
const headOf = (status: number): Record<string, string> => ({
  ...(status === 407 && { "proxy-authenticate": 'Basic realm="run"' }),
  "content-type": "text/plain",
  connection: "close",
});

export const refusalOf = (error: unknown): Refusal =>
  error instanceof Refusal ? error : new Refusal(502, `The host cannot be reached: ${String(error)}`);

export const refuse = (answer: ServerResponse, error: unknown): void => {
  const { status, message } = refusalOf(error);
  if (answer.headersSent) return void answer.destroy();
  answer.writeHead(status, headOf(status)).end(`${message}\n`);
};

/** The last words on a connection. A client that does not read on must not keep it open. */
export const say = (client: Duplex, { status, message }: Refusal): void => {
  if (!client.writable) return void client.destroy();
  const lines = Object.entries(headOf(status)).map(([name, value]) => `${name}: ${value}\r\n`);
  client
    .resume()
    .end(`HTTP/1.1 ${status} Refused\r\n${lines.join("")}\r\n${message}\n`, () => client.destroy());
};
