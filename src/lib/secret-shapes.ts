import type { Redact } from "./redact.ts";

/** Masks what looks like a secret: known tokens, keys, credentials, random values of telling names. Ids and code stay. */
export const maskSecrets: Redact = (text) =>
  text
    .replace(privateKey, (whole, head: string, body: string) =>
      /[\w+/]{30}/.test(body) ? `${head}***` : whole,
    )
    .replace(tokensAnywhere, "***")
    .replace(tokensAsWords, (token) => (token.startsWith("sk-") && !isRandom(token, 20) ? token : "***"))
    .replace(urlCredentials, (whole, user: string, password: string | undefined) => {
      if (password === undefined) return isRandom(user, 20) ? "://***@" : whole;
      return isReference(password) ? whole : `://${user}:***@`;
    })
    .replace(authorization, (whole, scheme: string, value: string) =>
      isRandom(value, 16) || (/^basic/i.test(scheme) && isUserAndPassword(value)) ? `${scheme}***` : whole,
    )
    .replace(cookies, "$1***")
    .replace(inQuery, (whole, name: string, value: string) => (isRandom(value, 16) ? `${name}***` : whole))
    .replace(ofTools, (whole, flag: string, value: string, offset: number, all: string) => {
      const before = all.slice(Math.max(0, offset - 200), offset);
      return takesPassword(flag, before) && !isReference(value) ? `${flag}***` : whole;
    })
    .replace(named, (whole, name: string, rest: string, value: string, offset: number, all: string) => {
      // A call, not a value.
      if (all.charAt(offset + whole.length) === "(") return whole;
      return masked(whole, { name, rest, value });
    })
    .replace(flagged, (whole, flag: string, value: string) => {
      const [, name, rest] = nameIn.exec(flag) ?? [];
      return name === undefined || rest === undefined ? whole : masked(whole, { name, rest, value });
    });

// The patterns take linear time on any text: a repetition has a limit, or is consumed, or starts where no other one can.

/** The body may have line numbers, quotes of a diff, or escaped line breaks; its end may be missing. */
const privateKey =
  /(-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----)((?:[\w+/=\s\\→|>:,.()]|-(?!-)){0,20000})/g;

/** At these only where no word goes on: `disk-…` is no key. `\n` may be an escaped line break. */
const boundary = String.raw`(?<=^|[^A-Za-z0-9_-]|\\[nrt])`;
const anywhere = [
  String.raw`gh[pousr]_[A-Za-z0-9]{20,}`,
  String.raw`github_pat_\w{20,}`,
  String.raw`sk-ant-[\w-]{10,}`,
  String.raw`gl(?:pat|dt|rt|ptt|cbt|soat|ft|imt|agent)-[\w.-]{15,}`,
  String.raw`xox[abceoprs]-[\w-]{10,}`,
  String.raw`xapp-\d-[\w-]{10,}`,
  String.raw`hooks\.slack\.com/services/[\w/]{20,}`,
  String.raw`AIza[\w-]{35}`,
  String.raw`GOCSPX-[\w-]{20,}`,
  // With the secret of AWS that often stands after its id.
  String.raw`(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])(?:[\s,:"'|]{1,5}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+]))?`,
  String.raw`shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}`,
  String.raw`AGE-SECRET-KEY-1[0-9A-Z]{50,}`,
  String.raw`dckr_pat_[\w-]{20,}`,
  String.raw`do[opr]_v1_[a-f0-9]{40,}`,
  String.raw`pypi-AgE[\w-]{40,}`,
  String.raw`(?<=\d{8}):AA[\w-]{33}`,
  String.raw`tskey-[a-z]{3,10}-[\w-]{10,}`,
  String.raw`ATATT3[\w=-]{20,}`,
  String.raw`lin_api_[A-Za-z0-9]{20,}`,
  String.raw`figd_[\w-]{20,}`,
  String.raw`pplx-[A-Za-z0-9]{20,}`,
  String.raw`PMAK-[a-f0-9]{20,}-[\w-]{10,}`,
];
const asWord = [
  String.raw`sk-[\w-]{20,}`,
  String.raw`(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}`,
  String.raw`whsec_[A-Za-z0-9+/=]{20,}`,
  String.raw`npm_[A-Za-z0-9]{36}`,
  String.raw`hf_[A-Za-z0-9]{30,}`,
  String.raw`gsk_[A-Za-z0-9]{40,}`,
  String.raw`hv[sbr]\.[\w-]{20,}`,
  String.raw`sbp_[a-f0-9]{40}`,
  String.raw`ntn_[A-Za-z0-9]{30,}`,
  String.raw`xai-[A-Za-z0-9]{20,}`,
  String.raw`r8_[A-Za-z0-9]{30,}`,
  String.raw`ya29\.[\w-]{20,}`,
  String.raw`SG\.[\w-]{16,}\.[\w-]{16,}`,
  // JSON Web Tokens, signed or encrypted.
  String.raw`eyJ[\w-]{8,}(?:\.[\w-]*){2,4}`,
];
// One pattern of both takes twice as long.
const tokensAnywhere = new RegExp(anywhere.join("|"), "g");
const tokensAsWords = new RegExp(`(?=[a-zS])${boundary}(?:${asWord.join("|")})`, "g");

const urlCredentials = /:\/\/([^\s/:@"'`<>\\]{0,256})(?::([^\s/@"'`<>\\]{1,256}))?@/g;

const authorization = /\b((?:bearer|basic|token)[ \t]{1,4})([\w.~+/=-]{8,})/gi;

/** The rest of the header's line. */
const cookies = /\b((?:set-)?cookie["']?:[ \t]{0,4}["']?)[^\s"'`<>=]{1,100}=[^\s"'`;][^\r\n"'`]{5,4000}/gi;

const inQuery = /([?&](?:sig|key)=)([\w%+/=.~-]{16,})/gi;

/** `-u NAME:PASSWORD`, `-p PASSWORD`, `-pPASSWORD`. */
const ofTools = /([ \t](?:(?:-u|--user)[ \t=]{0,4}["']?[^\s:"'`]{1,100}:|-p[ \t]{0,4}["']?))([^\s"'`]{3,})/g;

/** Whether the command before the flag takes a password there. */
const takesPassword = (flag: string, before: string): boolean => {
  if (!/^\s-p/.test(flag)) return /\bcurl\b[^\r\n|;&]*$/.test(before);
  if (/\b(?:sshpass|(?:docker|podman) +login)\b[^\r\n|;&]*$/.test(before)) return true;
  return !/-p\s/.test(flag) && /\bmysql(?:dump|admin)?\b[^\r\n|;&]*$/.test(before);
};

const secretName =
  "((?:api|access|secret|private|auth|account|signing|encryption|master|service)[_-]?key|client[_-]key[_-]data|secret|token|password|passwd|passphrase|pwd|credential|authorization|auth(?![a-z]))";
const nameIn = new RegExp(`${secretName}([\\w-]*)`, "i");
const value = String.raw`([\w\-+/=.~!@#%^*$?:]{6,})`;
const quote = "\\\\{0,3}[\"'`]?";
const named = new RegExp(
  `${secretName}([\\w-]{0,30})${quote}[ \\t]{0,8}(?::=|=>|[:=])[ \\t]{0,8}${quote}${value}`,
  "gi",
);
/** On a command line: `--token VALUE`. */
const flagged = new RegExp(`(--[a-z][\\w-]{0,40})[ \\t]{1,4}${quote}${value}`, "gi");

type Named = { name: string; rest: string; value: string };

const masked = (whole: string, { name, rest, value: found }: Named): string => {
  const isPassword = /^(?:passw|passp|pwd)/i.test(name) && rest === "";
  const isSecret = isPassword ? isPasswordLike(found) : isRandom(found, 12);
  return isSecret ? `${whole.slice(0, -found.length)}***` : whole;
};

const isPasswordLike = (text: string): boolean =>
  /[\d!@#%^*$?~+]/.test(text) && !isReference(text) && !/^[.~]{0,2}\//.test(text) && !text.includes("://");

/** Not words of letters and short numbers, as identifiers, paths, versions and names of models are. */
const isRandom = (text: string, shortest: number): boolean => {
  if (text.length < shortest || !/\d/.test(text) || !/[a-z]/i.test(text) || isReference(text)) return false;
  if (/^\d{4}-\d\d-\d\d/.test(text)) return false;
  const parts = text.slice(0, 1000).match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g) ?? [];
  return parts.filter((part) => (/\d/.test(part) ? part.length > 4 : part.length === 1)).length > 1;
};

/** What code writes instead of a value. */
const isReference = (text: string): boolean =>
  /^(?:\$[A-Za-z_{(]|%[A-Za-z({]|\{|\*{2,}|[A-Za-z_$][\w$]{0,60}(?:\.[A-Za-z_$]{2,60}\d?)+$)/.test(text);

const isUserAndPassword = (base64: string): boolean => {
  const text = Buffer.from(base64, "base64").toString();
  return text.includes(":") && /^[\x20-\x7e]+$/.test(text);
};
