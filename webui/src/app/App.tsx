import { Suspense } from "react";
import { Route, Switch } from "wouter";
import { strings } from "@/strings";
import { FailureBoundary } from "@/ui/Failure";
import { Toasts } from "@/ui/toasts";
import { Banner } from "./Banner";
import { Bar } from "./Bar";
import { ExperimentFrame } from "./ExperimentFrame";
import { NotFound } from "./NotFound";
import * as pages from "./pages";
import { Notifications } from "./Notifications";
import { Palette } from "./Palette";
import { Shortcuts } from "./Shortcuts";
import "./app.css";

export function App() {
  return (
    <>
      <a className="skip" href="#content">
        {strings.common.skip}
      </a>
      <Bar />
      <Banner />
      <main id="content" tabIndex={-1}>
        <FailureBoundary>
          <Suspense fallback={<p className="soft">{strings.common.loading}</p>}>
            <Switch>
              <Route path="/" component={pages.Experiments} />
              <Route path="/compare" component={pages.ExperimentCurves} />
              <Route path="/new" component={pages.NewExperiment} />
              <Route path="/resources" component={pages.Resources} />
              <Route path="/experiments/:id" nest>
                {({ id }) => (
                  <ExperimentFrame id={id}>
                    <Switch>
                      <Route path="/">
                        <pages.Overview id={id} />
                      </Route>
                      <Route path="/trials">
                        <pages.Trials id={id} />
                      </Route>
                      <Route path="/trials/:trial">
                        {({ trial }) => <pages.Trial id={id} trialId={trial} />}
                      </Route>
                      <Route path="/analysis">
                        <pages.Analysis id={id} />
                      </Route>
                      <Route path="/compare">
                        <pages.Compare id={id} />
                      </Route>
                      <Route path="/resources">
                        <pages.ExperimentResources id={id} />
                      </Route>
                      <Route component={NotFound} />
                    </Switch>
                  </ExperimentFrame>
                )}
              </Route>
              <Route component={NotFound} />
            </Switch>
          </Suspense>
        </FailureBoundary>
      </main>
      <Shortcuts />
      <Palette />
      <Notifications />
      <Toasts />
    </>
  );
}
