import { lookup } from "node:dns/promises";
import { once } from "node:events";
import { BlockList, isIP, isIPv4 } from "node:net";
import { networkInterfaces } from "node:os";
import type { Judged } from "./allowed-hosts.ts";

function listOf(nets: readonly string[]): BlockList {
  const list = new BlockList();
  for (const [address = "", bits] of nets.map((net) => net.split("/")))
    list.addSubnet(address, Number(bits), isIPv4(address) ? "ipv4" : "ipv6");
  return list;
}

/**
 * Addresses to which no name may lead a sandboxed agent: this machine's own loopback, link-local and the clouds' metadata
 * services (credentials), and what is no single host. Private networks are not among them: a registry is often there.
 */
const refused = listOf([
  "0.0.0.0/8",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "100.100.100.200/32",
  "168.63.129.16/32",
  "192.0.0.192/32",
  "224.0.0.0/4",
  "240.0.0.0/4",
  "::/96",
  "fe80::/10",
  "fd00:ec2::254/128",
  "fd20:ce::254/128",
  "ff00::/8",
  // Translations of IPv4 that hide the address: 6to4, Teredo, local NAT64, SIIT.
  "2002::/16",
  "2001::/32",
  "64:ff9b:1::/48",
  "::ffff:0:0:0/96",
]);

/** Private networks, also those of providers: only hosts that the operator names may be there. */
const ownNetworks = listOf([
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.168.0.0/16",
  "100.64.0.0/10",
  "192.0.0.0/24",
  "198.18.0.0/15",
  "fc00::/7",
  "fec0::/10",
]);

/** Whether a connection that was judged may go to the address. */
export const mayLeadTo = (how: Judged, address: string): boolean => {
  if (how === "local") return true;
  if (isRefusedAddress(address)) return false;
  return how !== "public" || !isIn(ownNetworks, plainOf(address));
};

/** Whether an address, in any form that the system understands, is one of this host, link-local or of metadata. */
export const isRefusedAddress = (address: string, own: readonly string[] = ownAddresses()): boolean => {
  const plain = plainOf(address);
  return isIP(plain) === 0 || isIn(refused, plain) || own.map(canonical).includes(canonical(plain));
};

const isIn = (list: BlockList, address: string): boolean =>
  list.check(address, isIPv4(address) ? "ipv4" : "ipv6");

/** Without its zone, and as IPv4 where it has one in it. */
const plainOf = (address: string): string => {
  const bare = address.replace(/%.*$/, "");
  return (isIP(bare) === 6 ? embeddedIPv4(bare) : null) ?? bare;
};

const ownAddresses = (): string[] =>
  Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address));

/** Of an IPv4-mapped (::ffff:0:0/96), an IPv4-compatible (::/96) or a NAT64 address (64:ff9b::/96). */
const embeddedIPv4 = (address: string): string | null => {
  const [, high = "", low = ""] =
    /^(?:::(?:ffff:)?|64:ff9b::)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical(address)) ?? [];
  if (high === "") return null;
  const [a, b] = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return [a >> 8, a & 255, b >> 8, b & 255].join(".");
};

/** One text for all that an IPv6 address can be written as. */
const canonical = (address: string): string =>
  address.includes(":") ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address;

export const byTheSystem = async (name: string): Promise<string[]> =>
  (await lookup(name, { all: true })).map(({ address }) => address);

/** Of a name, or the address that it is. Empty: there are none; null: they are not known within the time. */
export const addressesOf = async (
  name: string,
  resolve: (name: string) => Promise<string[]>,
  ms: number,
): Promise<string[] | null> => {
  if (isIP(name) !== 0) return [name];
  const late = once(AbortSignal.timeout(ms), "abort").then(() => null);
  return await Promise.race([resolve(name).catch(() => []), late]);
};
