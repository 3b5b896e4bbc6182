/** Configurations to begin with. */

export type TemplateName = "local" | "tpe" | "remote";

export const TEMPLATES: Record<TemplateName, string> = {
  local: `# Runs as it is: the trial is one line of Python that reports a number.
experimentName: example
searchSpace:
  x: {_type: uniform, _value: [-5, 5]}
trialCommand: >-
  python3 -c "import nni; p = nni.get_next_parameter(); nni.report_final_result((p['x'] - 2) ** 2)"
trialConcurrency: 2
maxTrialNumber: 20
goal: minimize
tuner:
  name: Random
trainingService:
  platform: local
`,
  tpe: `# TPE learns from the results; Medianstop ends trials that fall behind the others.
experimentName: tpe
searchSpace:
  learning_rate: {_type: loguniform, _value: [0.0001, 0.1]}
  batch_size: {_type: choice, _value: [16, 32, 64, 128]}
  dropout: {_type: uniform, _value: [0, 0.5]}
trialCommand: python3 train.py
trialCodeDirectory: .
trialConcurrency: 4
maxTrialNumber: 100
maxExperimentDuration: 8h
goal: maximize
tuner:
  name: TPE
assessor:
  name: Medianstop
  classArgs:
    start_step: 5
trainingService:
  platform: local
`,
  remote: `# Trials run on machines over SSH; their code is copied there.
experimentName: remote
searchSpace:
  learning_rate: {_type: loguniform, _value: [0.0001, 0.1]}
trialCommand: python3 train.py
trialCodeDirectory: .
trialConcurrency: 4
maxTrialNumber: 100
trialGpuNumber: 1
goal: maximize
tuner:
  name: TPE
trainingService:
  platform: remote
  machineList:
    - host: gpu-1.example.org
      user: alice
      sshKeyFile: ~/.ssh/id_ed25519
    - host: gpu-2.example.org
      user: alice
      sshKeyFile: ~/.ssh/id_ed25519
`,
};
