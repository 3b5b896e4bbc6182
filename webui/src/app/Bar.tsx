import { Link } from "wouter";
import { request } from "@/api/client";
import { useConnection } from "@/live/useConnection";
import { strings } from "@/strings";
import { Button } from "@/ui/Button";
import { Menu } from "@/ui/Menu";
import { chooseTheme, useTheme, type Theme } from "@/ui/theme";
import { complain } from "@/ui/toasts";
import { useNotifications, wantNotifications } from "./Notifications";
import { showPalette } from "./Palette";
import { showShortcuts } from "./Shortcuts";

/** The bar at the top of every page. */
export function Bar() {
  const { chosen } = useTheme();
  const connection = useConnection();
  const notified = useNotifications();
  const themes: Theme[] = ["system", "light", "dark"];
  const signOut = () => {
    request("/api/v1/logout", { method: "POST" }).then(() => location.assign("/login"), complain);
  };
  return (
    <header className="bar">
      <Link href="/" className="brand">
        <img src="/icon.svg" alt="" width="22" height="22" />
        {strings.common.product}
      </Link>
      <nav aria-label={strings.common.navigation}>
        <Link href="/" className="tab">
          {strings.navigation.experiments}
        </Link>
        <Link href="/resources" className="tab">
          {strings.navigation.resources}
        </Link>
      </nav>
      <div className="row">
        <span className={connection.state === "live" ? "badge good" : "badge warn"}>
          <span aria-hidden>●</span>
          {connection.state === "live" ? strings.common.live : strings.common.connections[connection.state]}
        </span>
        <Button
          aria-label={strings.palette.open}
          title={strings.palette.open}
          onClick={() => showPalette(true)}
        >
          <span aria-hidden>⌕</span>
        </Button>
        <Link href="/new" className="button primary">
          {strings.navigation.newExperiment}
        </Link>
        <Menu
          label="⋯"
          name={strings.common.more}
          items={[
            ...themes.map((theme) => ({
              label: `${strings.common.theme}: ${strings.common.themes[theme]}`,
              checked: theme === chosen,
              onSelect: () => chooseTheme(theme),
            })),
            {
              label: strings.news.menu,
              checked: notified,
              onSelect: () => void wantNotifications(!notified),
            },
            { label: strings.common.shortcuts, onSelect: () => showShortcuts(true) },
            { label: strings.common.api, onSelect: () => location.assign("/docs") },
            { label: strings.common.signOut, onSelect: signOut },
          ]}
        />
      </div>
    </header>
  );
}
