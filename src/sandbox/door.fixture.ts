import { once } from "node:events";
import { request, type IncomingHttpHeaders } from "node:http";
import { connect, type AddressInfo, type Server } from "node:net";
import { afterFile } from "../../test/cleanup.ts";
import { openDoor, type DoorOptions } from "./door.ts";

export const listen = async (server: Server): Promise<number> => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  afterFile(async () => void server.close());
  return (server.address() as AddressInfo).port;
};

export const open = async (options: Partial<DoorOptions> = {}) => {
  const denied: string[] = [];
  const door = await openDoor({ routes: [], hosts: [], onDenied: (name) => denied.push(name), ...options });
  afterFile(() => door[Symbol.asyncDispose]());
  return { door, denied };
};

type Answer = { status: number; text: string; headers: IncomingHttpHeaders };

export const ask = (
  socketPath: string,
  path: string,
  { method = "GET", headers = {}, body = "" } = {},
): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const sent = request({ socketPath, path, method, headers }, (answer) => {
      let text = "";
      answer.on("data", (piece: Buffer) => (text += piece.toString()));
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text, headers: answer.headers }));
    });
    sent.on("error", reject);
    sent.end(body);
  });

/** Sends bytes as they are; resolves to all that comes back until the door closes. */
export const sendRaw = (socketPath: string, bytes: string): Promise<string> =>
  new Promise((resolve) => {
    const socket = connect(socketPath);
    let text = "";
    socket.on("data", (piece) => (text += piece.toString()));
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(text));
    socket.write(bytes);
  });
