import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text as readAll } from "node:stream/consumers";
import { rootCertificates } from "node:tls";
import { startFakeGitHost } from "../test/fake-git-host/fake-git-host.ts";
import { startFakeModel } from "../test/fake-model/fake-model.ts";
import { credentialsFound, scripted } from "./credentials.ts";
import { tutorialScript } from "./tutorial-script.ts";

/**
 * Starts what the tutorial does without: a scripted model and a stand-in of the git host, in the background. Used as
 * `eval "$(npm run --silent stand-ins)"`: standard output is the variables for the shell, standard error says what runs.
 */
const launch = async (): Promise<void> => {
  const child = spawn(process.execPath, [import.meta.filename, "serve"], {
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const faults = readAll(child.stderr);
  const [ready] = (await Promise.race([once(child.stdout, "data"), once(child.stdout, "end")])) as [Buffer?];
  if (ready === undefined) throw new Error(`The stand-ins did not start: ${await faults}`);
  process.stdout.write(`${ready.toString()}export STAND_INS_PID=${child.pid}\n`);
  child.unref();
  // The pipes would keep this process as long as the stand-ins run.
  process.exit();
};

const serve = async (): Promise<void> => {
  const host = await startFakeGitHost();
  const model = credentialsFound().length === 0 ? await startFakeModel() : null;
  model?.script(tutorialScript);
  await host.createRepository("tutorial", "temperature", { seed: null });
  // Programs of the same shell still trust everybody else.
  const certificates = join(host.root, "certificates.pem");
  await writeFile(certificates, [...rootCertificates, host.certificate].join("\n"));
  const variables = {
    ...(model === null ? {} : { MODEL_API_BASE_URL: model.url, MODEL_API_AUTH_TOKEN: scripted }),
    GIT_HOST: host.host,
    GIT_HOST_TOKEN: host.createToken(),
    SSL_CERT_FILE: certificates,
    GIT_SSL_CAINFO: certificates,
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => void Promise.all([host.close(), model?.close()]));
  }
  const lines = Object.entries(variables).map(([name, value]) => `export ${name}='${value}'\n`);
  process.stdout.write(lines.join(""));
};

const announce = (): void => {
  const found = credentialsFound();
  const model =
    found.length === 0
      ? "Model: NONE. A script plays it: it does the tasks of docs/use/tutorial.md, and little else."
      : `Model: the real one, with ${found.join(", ")} from the environment.`;
  process.stderr.write(
    `${model}\nGit host: a stand-in on this machine, with the empty repository tutorial/temperature.\n` +
      `To stop: kill $STAND_INS_PID, and close this shell or unset MODEL_API_BASE_URL MODEL_API_AUTH_TOKEN GIT_HOST GIT_HOST_TOKEN SSL_CERT_FILE GIT_SSL_CAINFO\n`,
  );
};

if (process.argv[2] === "serve") await serve();
else {
  announce();
  await launch();
}
