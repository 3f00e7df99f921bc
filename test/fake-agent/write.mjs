import { writeSync } from "node:fs";

/** Writes all of it before it returns, so that a scenario may die at once after it. */
export const write = (data, descriptor = 1) => {
  const bytes = Buffer.from(data);
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(descriptor, bytes, at);
    } catch (error) {
      if (error.code === "EPIPE") return;
      if (error.code !== "EAGAIN") throw error;
    }
  }
};

export const writeLine = (value) => write(`${JSON.stringify(value)}\n`);
