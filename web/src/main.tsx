import "./tokens.css";
import "./base.css";
import "./shell/shell.css";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./shell/app.tsx";
import { followChanges } from "./shell/changes.ts";
import { applyTheme } from "./shell/header.tsx";

applyTheme();
void followChanges();
const page = document.getElementById("page");
if (page !== null) {
  createRoot(page).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
