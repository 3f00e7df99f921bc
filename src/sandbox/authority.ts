import { KeyObject, type webcrypto } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { createSecureContext, getCACertificates, rootCertificates, type SecureContext } from "node:tls";

const dayMs = 86_400_000;
const keys = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

/** A certificate authority of one run. Its keys are in memory only. */
export const createAuthority = async (now = Date.now()) => {
  // Its 150 ms are for runs that need it.
  const { X509CertificateGenerator, ...x509 } = await import("@peculiar/x509");
  const makeKeys = (extractable: boolean): Promise<webcrypto.CryptoKeyPair> =>
    crypto.subtle.generateKey(keys, extractable, ["sign", "verify"]);
  const [authority, server] = [await makeKeys(false), await makeKeys(true)];
  const privateKey = KeyObject.from(server.privateKey).export({ type: "pkcs8", format: "pem" });
  const common = {
    // Clocks differ, and a conversation may last.
    notBefore: new Date(now - dayMs),
    notAfter: new Date(now + 30 * dayMs),
    signingAlgorithm: keys,
  };
  const { KeyUsageFlags: usage } = x509;
  const root = await X509CertificateGenerator.createSelfSigned({
    ...common,
    name: "CN=Sandbox of a run",
    keys: authority,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(usage.keyCertSign, true),
      await x509.SubjectKeyIdentifierExtension.create(authority.publicKey),
    ],
  });
  const certificate = root.toString("pem");
  const make = async (host: string): Promise<SecureContext> => {
    const made = await X509CertificateGenerator.create({
      ...common,
      // A name in it is limited to 64 characters.
      subject: "CN=Sandbox of a run: a host",
      issuer: root.subject,
      publicKey: server.publicKey,
      signingKey: authority.privateKey,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(usage.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
        new x509.SubjectAlternativeNameExtension([
          { type: isIP(host) === 0 ? "dns" : "ip", value: host },
          // Behind a proxy npm takes an address for this name.
          { type: "dns", value: "localhost" },
        ]),
        await x509.AuthorityKeyIdentifierExtension.create(authority.publicKey),
        await x509.SubjectKeyIdentifierExtension.create(server.publicKey),
      ],
    });
    return createSecureContext({ key: privateKey, cert: made.toString("pem") });
  };
  const contexts = new Map<string, Promise<SecureContext>>();
  return {
    /** Of the authority itself, PEM. */
    certificate,
    /** What a server of this name or address shows; made once for each. */
    contextFor: (host: string): Promise<SecureContext> => {
      const context = contexts.get(host) ?? make(host);
      contexts.set(host, context);
      return context;
    },
  };
};

/**
 * Writes files by which programs trust the authority besides all that they trust already. Resolves to their directory and
 * the variables that name them: Node adds to what it knows, the others take the file in its place.
 */
export const writeTrust = async (
  within: string,
  certificate: string,
): Promise<{ directory: string; env: Record<string, string> }> => {
  const directory = join(within, "trust");
  const [added, all] = [join(directory, "added.pem"), join(directory, "all.pem")];
  const more = [...getCACertificates("extra"), certificate];
  await mkdir(directory);
  await writeFile(added, more.join("\n"));
  await writeFile(all, [await ofTheMachine(), ...more].join("\n"));
  return {
    directory,
    env: {
      NODE_EXTRA_CA_CERTS: added,
      ...Object.fromEntries(replacing.split(" ").map((name) => [name, all])),
    },
  };
};

const replacing =
  "SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE PIP_CERT GIT_SSL_CAINFO CARGO_HTTP_CAINFO NPM_CONFIG_CAFILE";

/** Of Debian and Alpine, Red Hat, SUSE, others. */
const bundles =
  "/etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem".split(
    " ",
  );

const ofTheMachine = async (): Promise<string> => {
  for (const path of [process.env["SSL_CERT_FILE"] ?? "", ...bundles]) {
    const text = await readFile(path, "utf8").catch(() => "");
    if (text.includes("BEGIN CERTIFICATE")) return text;
  }
  return rootCertificates.join("\n");
};
