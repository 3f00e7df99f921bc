/** Whether a path is the directory or lies in it. Both are absolute. Links are not followed. */
export const isBelow = (path: string, directory: string): boolean =>
  `${path.replace(/\/+$/, "")}/`.startsWith(`${directory.replace(/\/+$/, "")}/`);
