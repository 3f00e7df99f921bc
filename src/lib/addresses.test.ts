import { expect, test } from "vitest";
import { isRefusedAddress, mayLeadTo } from "./addresses.ts";

const own = ["10.1.2.3", "fd12::3"];

test.each([
  "127.0.0.1",
  "127.8.8.8",
  "0.0.0.0",
  "169.254.169.254",
  "100.100.100.200",
  "168.63.129.16",
  "10.1.2.3",
  "224.0.0.1",
  "255.255.255.255",
  "::1",
  "::",
  "::7f",
  "0:0:0:0:0:0:0:1",
  "fe80::1",
  "fe80::1%eth0",
  "fd12:0:0::3",
  "fd00:ec2::254",
  "::ffff:127.0.0.1",
  "::ffff:7f00:1",
  "::FFFF:A9FE:A9FE",
  "::7f00:1",
  "64:ff9b::127.0.0.1",
  "64:ff9b::a9fe:a9fe",
  "64:ff9b::0a01:0203",
  "64:ff9b:1::1",
  "2002:7f00:1::",
  "2001:0:1::1",
  "::ffff:0:7f00:1",
  "ff02::1",
  "no address",
  "2130706433",
  "0x7f.1",
])("%s is refused", (address) => {
  expect(isRefusedAddress(address, own)).toBe(true);
});

test.each([
  "93.184.216.34",
  "10.1.2.4",
  "192.168.0.5",
  "2606:4700::1111",
  "64:ff9b::5db8:d822",
  "::ffff:8.8.8.8",
  "fd12::4",
])("%s is not", (address) => {
  expect(isRefusedAddress(address, own)).toBe(false);
});

test("the machine's own addresses are refused without being named", () => {
  expect(isRefusedAddress("127.0.0.1")).toBe(true);
  expect(isRefusedAddress("8.8.8.8")).toBe(false);
});

test.each([
  "93.184.216.34",
  "2606:4700::1111",
  "64:ff9b::5db8:d822",
  "::ffff:8.8.8.8",
  "172.32.0.1",
  "100.128.0.1",
])("%s is public", (address) => {
  expect(mayLeadTo("public", address)).toBe(true);
});

test.each([
  "127.0.0.1",
  "169.254.169.254",
  "10.1.2.4",
  "172.16.0.1",
  "172.31.255.255",
  "192.168.0.5",
  "100.64.0.1",
  "198.19.0.1",
  "fd12::4",
  "fd12::4%eth0",
  "fc00:0::1",
  "fec0::1",
  "::ffff:10.0.0.1",
  "64:ff9b::a01:203",
  "no address",
])("%s is not public", (address) => {
  expect(mayLeadTo("public", address)).toBe(false);
});
