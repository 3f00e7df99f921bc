import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";

/** The SDK's view of a session on /sse: what is received is given to `onmessage`, what is to be sent goes to `send`. */
export const createSseTransport = ({
  send,
  close,
}: {
  send: (message: JSONRPCMessage) => void;
  close: () => void;
}): Transport => {
  const transport: Transport = {
    start: async () => undefined,
    send: async (message) => send(message),
    close: async () => {
      const { onclose } = transport;
      // Told once: the server closes its transport, and the session closes its server.
      delete transport.onclose;
      close();
      onclose?.();
    },
  };
  return transport;
};
