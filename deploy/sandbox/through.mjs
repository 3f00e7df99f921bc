// Brings a program that knows no proxy through the door of its sandbox: through.mjs HOST:PORT [OWN PORT]
// ssh -o "ProxyCommand=node through.mjs %h:%p" git@git.example.com
// node through.mjs db.example.com:5432 "$PORT" & psql -h 127.0.0.1 -p "$PORT"
import { request } from "node:http";
import { createServer } from "node:net";
const [path, own] = process.argv.slice(2);
const { hostname: host, port, username, password } = new URL(process.env.HTTPS_PROXY);
const headers = { "proxy-authorization": `Basic ${btoa(`${username}:${password}`)}` };
const open = (from, to) =>
  request({ host, port, method: "CONNECT", path, headers })
    .on("connect", (_answer, socket) => from.pipe(socket).pipe(to))
    .end();
if (own) createServer((client) => open(client, client)).listen(own, "127.0.0.1");
else open(process.stdin, process.stdout);
