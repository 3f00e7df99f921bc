import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { generate } from "selfsigned";
import { temporaryDirectory } from "./temporary.ts";

/** A certificate for 127.0.0.1 that signs itself: its file, and the arguments with which Redis takes TLS alone on a port. */
export const redisCertificate = async () => {
  const directory = await temporaryDirectory();
  const { cert, private: key } = await generate([{ name: "commonName", value: "127.0.0.1" }], {
    extensions: [{ name: "subjectAltName", altNames: [{ type: 7, ip: "127.0.0.1" }] }],
  });
  const [certificate, keyFile] = [join(directory, "cert.pem"), join(directory, "key.pem")];
  await writeFile(certificate, cert);
  await writeFile(keyFile, key, { mode: 0o600 });
  return {
    certificate,
    args: (port: number): string[] =>
      [
        `--tls-port ${port} --tls-auth-clients no`,
        `--tls-cert-file ${certificate} --tls-key-file ${keyFile} --tls-ca-cert-file ${certificate}`,
      ].flatMap((line) => line.split(" ")),
  };
};
