import "@/styles/tokens.css";
import "@/styles/base.css";
import "@/ui/ui.css";
import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "@/app/App";
import { liveStream, queryClient } from "@/live/queries";
import { applyTheme } from "@/ui/theme";

applyTheme();
liveStream.open();

const place = document.getElementById("app");
if (place === null) throw new Error("index.html has no element #app");
createRoot(place).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <App />
    </QueryClientProvider>
  </StrictMode>,
);
