import { generate } from "selfsigned";

export type Certificate = { key: string; certificate: string };

/** One certificate that is its own authority: whoever trusts it trusts the loopback names and nothing else. */
export const createCertificate = async (): Promise<Certificate> => {
  const { private: key, cert } = await generate([{ name: "commonName", value: "fake-git-host" }], {
    keyType: "ec",
    algorithm: "sha256",
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", digitalSignature: true, keyCertSign: true, critical: true },
      { name: "extKeyUsage", serverAuth: true },
      {
        name: "subjectAltName",
        altNames: [
          { type: 2, value: "localhost" },
          { type: 7, ip: "127.0.0.1" },
          { type: 7, ip: "::1" },
        ],
      },
    ],
  });
  return { key, certificate: cert };
};
