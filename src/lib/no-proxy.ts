/**
 * Keeps this process, and what it starts, from asking a proxy for this machine and for what NO_PROXY names. Node asks one for
 * loopback as for any host (NODE_USE_ENV_PROXY, `--use-env-proxy`), reads only one of the two variables, and takes a domain for
 * one host; a shell's other programs mean those below it, too.
 *
 * @param loopback a further address of this machine's own
 */
export const widenNoProxy = (env: NodeJS.ProcessEnv, loopback = "127.0.0.1"): void => {
  if (!Object.keys(env).some((name) => /^(https?|all)_proxy$/i.test(name))) return;
  const names = ["no_proxy", "NO_PROXY"].flatMap((name) => (env[name] ?? "").split(/[\s,]+/));
  const domains = names.filter((name) => /^[a-z][\w-]*(\.[\w-]+)*$/i.test(name)).map((name) => `.${name}`);
  const all = new Set([...names, ...domains, "localhost", loopback, "127.0.0.1", "[::1]"]);
  env["no_proxy"] = env["NO_PROXY"] = [...all].filter((name) => name !== "").join();
};
